"""What events and actions have in common: they count once, and the jobs go on by them."""

from __future__ import annotations

import copy

from gpuq.core.state.apply import apply
from gpuq.core.state.events import Submitted
from gpuq.core.state.job import JobState
from tests.support.nouns import a_job, a_start, an_exit
from tests.support.playbook import one_running


def test_a_job_runs_and_completes() -> None:
    play = one_running()
    assert play.job_state(1) is JobState.RUNNING

    play.happen(an_exit(1))
    assert play.job_state(1) is JobState.COMPLETED
    assert not play.state.attempts

    play.settle()
    assert play.job_state(1) is None, "it is archived once nothing more is to be done for it"


def test_the_same_event_twice_changes_nothing() -> None:
    play = one_running()
    for event in (Submitted(a_job(1)), a_start(1)):
        before = copy.deepcopy(play.state)
        assert not apply(play.state, event, play.now + 1)
        assert play.state == before

    assert apply(play.state, an_exit(1), play.now)
    assert not apply(play.state, an_exit(1), play.now)
