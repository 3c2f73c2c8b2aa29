"""The table of legal steps, walked pair by pair."""

from __future__ import annotations

import itertools

import pytest

from gpuq.core.state.job import ACTIVE, ENDED, WAITING, JobState
from gpuq.core.state.transitions import TRANSITIONS, IllegalStepError, Step, allows, next_state


@pytest.mark.parametrize(("state", "step"), list(itertools.product(JobState, Step)))
def test_every_pair_is_either_in_the_table_or_refused(state: JobState, step: Step) -> None:
    if (state, step) in TRANSITIONS:
        assert next_state(state, step) is TRANSITIONS[state, step]
        assert allows(state, step)
    else:
        with pytest.raises(IllegalStepError, match=state.value):
            next_state(state, step)


def test_an_end_for_good_has_no_way_out() -> None:
    for state in (JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED, JobState.TIMEOUT):
        assert not any(allows(state, step) for step in Step)


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
