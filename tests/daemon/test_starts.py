"""What the live view says of starts: moments for those who wait, one for a newcomer, nothing after a fault."""

from typing import Any

import pytest

from gpuq.core.actions import Launch
from gpuq.core.ask import ask
from gpuq.core.decide import decide
from gpuq.core.events import Submitted
from gpuq.core.forecast import Forecast
from gpuq.core.index import likeness
from gpuq.core.job import JobId
from gpuq.core.known import Kept, Known
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


def test_what_is_kept_for_one_who_waited_too_long_is_not_promised_to_a_newcomer() -> None:
    state = State()
    apply(state, a_report(a_device()), 0.0)
    apply(state, Submitted(a_job(1)), 0.0)
    kept, free = (Known(dict.fromkeys(ask(state, {}, LIMITS, 0.0), HOUR)) for _ in range(2))
    kept.kept = Kept(JobId(1), likeness(state.jobs[JobId(1)]), frozenset(state.devices), 0)
    moments = []
    for answers in (kept, free):
        starts = Starts(Scheduling(), lambda: 0.0)
        starts.refresh(state, answers, LIMITS, 1.0)
        moments.append(starts.newcomer)
        assert starts.jobs[JobId(1)] == (1.0, 1.0)
    assert moments[0] is not None
    assert moments[0][0] > 1.0
