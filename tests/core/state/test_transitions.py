"""The table of legal steps."""

from __future__ import annotations

from gpuq.core.state.job import ACTIVE, ENDED, WAITING, JobState
from gpuq.core.state.transitions import TRANSITIONS, Step, next_state


def test_an_end_for_good_has_no_way_out() -> None:
    for state in (JobState.COMPLETED, JobState.CANCELLED):
        assert not any(next_state(state, step) for step in Step)


def test_every_state_can_be_reached_from_pending() -> None:
    reached = {JobState.PENDING}
    while True:
        more = {TRANSITIONS[pair] for pair in TRANSITIONS if pair[0] in reached} - reached
        if not more:
            break
        reached |= more
    assert reached == set(JobState)


def test_every_active_state_can_reach_every_end() -> None:
    for state in ACTIVE:
        assert {TRANSITIONS[pair] for pair in TRANSITIONS if pair[0] is state} >= ENDED


def test_a_waiting_job_can_always_be_cancelled() -> None:
    assert all(next_state(state, Step.CANCEL) is JobState.CANCELLED for state in WAITING)
