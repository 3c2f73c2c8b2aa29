"""When a rate may be believed: warm-up is dropped, a drift is not taken for steady, and intervals hold what they promise."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuq.lab.campaign.steady_state import (
    Mark,
    interval,
    later_half,
    rate_between,
    ratio_interval,
    steady,
    warm_up,
    windows,
)


def marks_of(rates: list[float], window_s: float = 1.0, per_window: int = 10) -> list[Mark]:
    """A counter that moves with these rates, a window each."""
    found, at, steps = [Mark(0.0, 1)], 0.0, 1.0
    for rate in rates:
        for _ in range(per_window):
            at += window_s / per_window
            steps += rate * window_s / per_window
            found.append(Mark(at, round(steps)))
    return found


def noisy(rate: float, count: int, seed: int = 1, spread: float = 0.02) -> list[float]:
    chance = random.Random(seed)
    return [rate * chance.gauss(1, spread) for _ in range(count)]


def test_a_steady_rate_has_no_warm_up_worth_dropping():
    found = steady(marks_of(noisy(100, 20)), 1.0)
    assert found is not None
    assert found.rate == pytest.approx(100, rel=0.02)
    assert found.interval.tight(0.02)


def test_a_slow_beginning_is_dropped_and_does_not_count():
    found = steady(marks_of([5, 20, 60, *noisy(100, 17)]), 1.0)
    assert found is not None
    assert 3 <= found.since < 10
    assert found.rate == pytest.approx(100, rel=0.02)


def test_a_rate_that_still_climbs_is_not_steady():
    assert steady(marks_of([10.0 * k for k in range(1, 21)]), 1.0) is None


def test_rate_that_was_never_steady_is_that_of_the_later_half_without_interval():
    found = later_half(marks_of([10.0] * 10 + [30.0] * 10))
    assert found is not None
    assert (found.rate, found.since) == (pytest.approx(30), pytest.approx(10))
    assert not found.interval.tight(1.0)
    assert later_half([Mark(1, 1)]) is None


def test_too_few_windows_have_no_steady_state():
    assert warm_up([100.0] * 5) is None
    assert steady([], 1.0) is None
    assert rate_between([Mark(1, 1)], 0, 2) is None


def test_a_halt_makes_a_longer_window_not_a_rate_of_zero():
    marks = [Mark(0, 0), Mark(1, 10), Mark(6, 11), Mark(7, 21)]
    assert [rate for _, rate in windows(marks, 1.0)] == [10, pytest.approx(0.2), 10]


@given(st.lists(st.tuples(st.floats(0.01, 2), st.integers(1, 50)), min_size=1, max_size=60), st.floats(0.1, 3))
def test_windows_hold_every_step_between_their_ends_once(moves: list[tuple[float, int]], window_s: float):
    at, steps, marks = 0.0, 0, [Mark(0.0, 0)]
    for seconds, count in moves:
        at, steps = at + seconds, steps + count
        marks.append(Mark(at, steps))
    found = windows(marks, window_s)
    begins = [begin for begin, _ in found]
    assert begins == sorted(begins)
    if found:
        lengths = [after - before for before, after in pairwise(begins)]
        assert all(length >= window_s - 1e-9 for length in lengths)
        counted = sum(rate * length for (_, rate), length in zip(found, lengths, strict=False))
        last = next(mark.steps for mark in marks if mark.at == begins[-1])
        assert counted == pytest.approx(last, rel=1e-6, abs=1e-6)


def test_interval_covers_the_true_mean_95_percent_of_the_time():
    """Of 400 draws of 8 values, 95% should hold it; fewer than 90% would be 4.5 standard deviations off."""
    chance = random.Random(7)
    held = 0
    for _ in range(400):
        found = interval([chance.gauss(50, 5) for _ in range(8)])
        assert found.half_width is not None
        held += abs(found.mean - 50) <= found.half_width * found.mean
    assert held >= 360


def test_neighbours_that_are_alike_are_worth_less():
    """A walk that forgets slowly: taken for independent, its values would promise far too much."""
    chance, value, values = random.Random(3), 0.0, []
    for _ in range(60):
        value = 0.9 * value + chance.gauss(0, 1)
        values.append(100 + value)
    alike, strangers = interval(values, in_time=True), interval(values)
    assert alike.half_width > 2 * strangers.half_width


@given(st.floats(1.0, 4.0), st.integers(2, 8), st.integers(0, 1000))
def test_a_slowdown_and_its_inverse_say_the_same(slowdown: float, count: int, seed: int):
    chance = random.Random(seed)
    ratios = [slowdown * math.exp(chance.gauss(0, 0.05)) for _ in range(count)]
    there, back = ratio_interval(ratios), ratio_interval([1 / ratio for ratio in ratios])
    assert there.mean * back.mean == pytest.approx(1)
    assert there.half_width == pytest.approx(back.half_width)


def test_one_value_has_no_half_width_and_is_never_tight():
    assert interval([5.0]).half_width is None
    assert not interval([5.0]).tight(1.0)
    assert ratio_interval([1.5]).half_width is None
