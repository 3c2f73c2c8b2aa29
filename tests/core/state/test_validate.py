"""`validate` finds what must never be; each case breaks one promise by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.device import DeviceId
from gpuq.core.state.events import Submitted
from gpuq.core.state.job import JobId, JobState
from gpuq.core.state.reservation import Reservation
from gpuq.core.state.state import State
from gpuq.core.state.validate import rebuilt, validate
from gpuq.core.state.verdict import Rule, Verdict
from tests.support.nouns import GIB, a_device, a_forecast, a_job, a_report
from tests.support.playbook import Playbook

FIRST = AttemptId(JobId(1), 1)


def two_share_and_one_waits() -> State:
    play = Playbook().forecast("kind", a_forecast(45, 4)).happen(a_report(a_device(gib=24)))
    play.happen(*(Submitted(a_job(number)) for number in (1, 2, 3))).settle()
    assert len(play.launched()) == 2
    return play.state


def reserve(state: State, job: int, *devices: str) -> None:
    state.reservations[JobId(job)] = Reservation(JobId(job), tuple(map(DeviceId, devices)))


def promise_too_much(state: State) -> None:
    state.attempts[FIRST] = replace(state.attempts[FIRST], promised=(23 * GIB,))


def share_against_its_will(state: State) -> None:
    state.attempts[FIRST] = replace(state.attempts[FIRST], shares=False)


def lose_a_resident(state: State) -> None:
    state.residents[DeviceId("gpu0")] = (FIRST,)


def run_without_an_attempt(state: State) -> None:
    state.jobs[JobId(3)] = replace(state.jobs[JobId(3)], state=JobState.RUNNING, attempt=1)


def forget_an_index(state: State) -> None:
    state.index.waiting.clear()


def give_a_running_job_a_reason(state: State) -> None:
    state.verdicts[JobId(1)] = Verdict(False, Rule.RESOURCES)


@pytest.mark.parametrize(
    ("break_it", "complaint"),
    [
        (promise_too_much, "promised"),
        (share_against_its_will, "must not"),
        (lose_a_resident, "is not on"),
        (run_without_an_attempt, "with attempts"),
        (forget_an_index, "index"),
        (give_a_running_job_a_reason, "does not wait"),
        (lambda state: reserve(state, 1, "gpu0"), "has a reservation but is"),
        (lambda state: reserve(state, 3, "gpu0", "gpu0"), "needs other devices"),
        (lambda state: reserve(state, 3), "needs other devices"),
    ],
)
def test_a_broken_promise_is_found(break_it: Callable[[State], None], complaint: str) -> None:
    state = two_share_and_one_waits()
    validate(state)
    break_it(state)
    with pytest.raises(AssertionError, match=complaint):
        validate(state)


def test_a_device_reserved_twice_is_found() -> None:
    play = Playbook().happen(a_report(a_device()), Submitted(a_job(1)), Submitted(a_job(2)))
    reserve(play.state, 1, "gpu0")
    validate(play.state)
    reserve(play.state, 2, "gpu0")
    with pytest.raises(AssertionError, match="reserved twice"):
        validate(play.state)


def test_a_state_rebuilt_from_its_parts_is_the_same() -> None:
    state = two_share_and_one_waits()
    reserve(state, 3, "gpu0")
    assert rebuilt(state) == state
