"""Code under a time limit is interrupted, and the process is as before afterwards."""

from __future__ import annotations

import signal
import sys
import threading
import time

import pytest

from gpuq.policies.time_limit import SignalTimeLimit, TimeLimitExceeded, no_time_limit

LIMIT_S = 0.02


def for_ever() -> None:
    while True:
        pass


def test_endless_loop_is_interrupted() -> None:
    with pytest.raises(TimeLimitExceeded):
        SignalTimeLimit()(for_ever, LIMIT_S)


def test_sleep_is_interrupted() -> None:
    with pytest.raises(TimeLimitExceeded):
        SignalTimeLimit()(lambda: time.sleep(3600), LIMIT_S)


def test_work_that_catches_every_exception_is_interrupted() -> None:
    def stubborn() -> None:
        while True:
            try:
                for_ever()
            except Exception:  # noqa: BLE001
                continue

    with pytest.raises(TimeLimitExceeded):
        SignalTimeLimit()(stubborn, LIMIT_S)


def test_work_that_catches_the_first_interrupt_gets_another() -> None:
    caught = []

    def catches_once() -> None:
        try:
            for_ever()
        except BaseException as error:  # noqa: BLE001
            caught.append(error)
        for_ever()

    with pytest.raises(TimeLimitExceeded):
        SignalTimeLimit()(catches_once, LIMIT_S)
    assert len(caught) == 1


def test_work_within_the_limit_returns_its_result_and_leaves_no_timer() -> None:
    signals = []
    before = signal.signal(signal.SIGALRM, lambda *_: signals.append(True))
    try:
        assert SignalTimeLimit()(lambda: 7, 60) == 7
        assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
        signal.raise_signal(signal.SIGALRM)
        assert signals == [True], "the earlier handler is restored"
    finally:
        signal.signal(signal.SIGALRM, before)


def test_earlier_timer_is_restored() -> None:
    signal.setitimer(signal.ITIMER_REAL, 3600)
    try:
        SignalTimeLimit()(lambda: 7, 60)
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 3000
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def test_spared_package_is_not_interrupted() -> None:
    """This module stands for the core: its loop runs to its end and the exception is raised right after it."""
    done = []

    def spared() -> None:
        until = time.monotonic() + 5 * LIMIT_S
        while time.monotonic() < until:
            pass
        done.append(True)

    work = {"__name__": "a.policy", "spared": spared}
    exec("def work():\n    while True:\n        spared()\n        n = 0\n        while n < 200_000: n += 1\n", work)

    with pytest.raises(TimeLimitExceeded):
        SignalTimeLimit(spared=(__name__,))(work["work"], LIMIT_S)
    assert done


def test_work_in_another_thread_runs_to_its_end() -> None:
    results: list[int] = []
    thread = threading.Thread(target=lambda: results.append(SignalTimeLimit()(lambda: 7, LIMIT_S)))
    thread.start()
    thread.join()
    assert results == [7]


def test_signal_after_the_work_does_nothing() -> None:
    SignalTimeLimit()._on_alarm(signal.SIGALRM, sys._getframe())
    assert no_time_limit(lambda: 7, 0) == 7
