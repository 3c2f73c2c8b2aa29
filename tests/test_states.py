"""The groups of job states."""

from gpuq.core.state.job import JobState
from gpuq.core.state.transitions import Step, next_state
from gpuq.states import ACTIVE, ENDED, MAY_REQUEUE, WAITING


def test_each_state_is_in_exactly_one_group():
    assert set(JobState) == WAITING | ACTIVE | ENDED
    assert len(WAITING) + len(ACTIVE) + len(ENDED) == len(JobState)


def test_the_states_that_may_wait_again_are_those_of_the_transitions():
    may = {state for state in ENDED if next_state(state, Step.REQUEUE) is JobState.PENDING}
    assert may - {JobState.FAILED, JobState.TIMEOUT} == MAY_REQUEUE
