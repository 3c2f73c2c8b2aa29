"""Carts in real time are pushed at their moments, and a learner that comes late does not rush after them."""

import pytest

from workloads import cartpole


class Clock:
    """Time that passes only in `sleep`."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(cartpole, "time", made)
    return made


def pushes(clock, ticks, works_s):
    at = []
    for work_s in works_s:
        ticks.wait()
        at.append(round(clock.now - 100, 6))
        clock.sleep(work_s)
    return at


def test_a_quick_learner_waits_for_each_tick(clock):
    assert pushes(clock, cartpole.Ticks(0.02), [0.005] * 4) == [0, 0.02, 0.04, 0.06]


def test_a_late_learner_goes_on_at_once_and_catches_up_nothing(clock):
    assert pushes(clock, cartpole.Ticks(0.02), [0.05, 0.001, 0.001]) == [0, 0.05, 0.07]


def test_without_real_time_ticks_do_not_wait(clock):
    assert pushes(clock, cartpole.Ticks(0), [0.005] * 3) == [0, 0.005, 0.01]
