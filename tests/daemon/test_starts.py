"""What the live view says of starts: moments for those who wait, one for a newcomer, nothing after a fault."""

from typing import Any

import pytest

from gpuq.core.actions import Launch
from gpuq.core.ask import ask
from gpuq.core.decide import decide
from gpuq.core.events import Submitted
from gpuq.core.forecast import Forecast
from gpuq.core.limits import Limits
from gpuq.core.state import State, apply
from gpuq.daemon.starts import Starts
from gpuq.policies.packed import packed
from gpuq.settings import Scheduling
from tests.support.nouns import a_device, a_job, a_report

LIMITS = Limits(residents_per_device=1)
HOUR = Forecast(duration_p50_s=3600.0, duration_p90_s=7200.0)


def a_busy_device_and_one_who_waits() -> tuple[State, dict[Any, Forecast]]:
    state = State()
    apply(state, a_report(a_device()), 0.0)
    for number in (1, 2):
        apply(state, Submitted(a_job(number)), 0.0)
    answers: dict[Any, Forecast] = dict.fromkeys(ask(state, {}, LIMITS, 0.0), HOUR)
    for action in decide(state, answers, LIMITS, packed, 0.0, cause=0):
        if isinstance(action, Launch):
            apply(state, action, 0.0)
    return state, answers


def test_one_who_waits_and_a_newcomer_behind_it() -> None:
    state, answers = a_busy_device_and_one_who_waits()
    starts = Starts(Scheduling(), lambda: 0.0)
    starts.refresh(state, answers, LIMITS, 10.0)
    (moments,) = starts.jobs.values()
    assert 0 < moments[0] < moments[1]
    assert starts.newcomer is not None
    assert starts.newcomer[0] > moments[0]


def test_it_is_not_worked_out_every_time() -> None:
    state, answers = a_busy_device_and_one_who_waits()
    starts = Starts(Scheduling(), lambda: 0.0)
    starts.refresh(state, answers, LIMITS, 1.0)
    first = starts.jobs
    starts.refresh(state, answers, LIMITS, 2.0)
    assert starts.jobs is first
    starts.refresh(state, answers, LIMITS, 20.0)
    assert starts.jobs is not first


def test_a_fault_hurts_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    state, answers = a_busy_device_and_one_who_waits()
    starts = Starts(Scheduling(), lambda: 0.0)
    monkeypatch.setattr(starts._teller, "among", lambda board, jobs: 1 / 0)
    starts.refresh(state, answers, LIMITS, 1.0)
    assert starts.jobs == {}
    assert starts.newcomer is None
