"""Jobs that wait for other jobs, for a moment, or for earlier jobs of their name."""

from __future__ import annotations

from typing import Any

import pytest

from gpuq.core.state.actions import Abandon, EndWait
from gpuq.core.state.attempt import Ending
from gpuq.core.state.dependency import Dependency
from gpuq.core.state.events import CancelRequested, HoldRequested, ReleaseRequested, Submitted
from gpuq.core.state.job import Job, JobId, JobState
from gpuq.core.state.verdict import Rule
from tests.support.nouns import a_device, a_job, a_report, a_start, an_exit
from tests.support.playbook import Playbook


def waiting(number: int, after: str = "", **changes: Any) -> Job:
    return a_job(number, after=tuple(map(Dependency.parse, after.split())), eligible=False, **changes)


def on(devices: int, *jobs: Job) -> Playbook:
    play = Playbook().happen(a_report(*(a_device(f"gpu{n}") for n in range(devices))))
    return play.happen(*map(Submitted, jobs)).settle()


def test_a_job_starts_once_the_one_before_it_succeeded() -> None:
    play = on(2, a_job(1), waiting(2, "ok:1"))
    assert play.launched().keys() == {1}
    assert (play.reason(2), dict(play.state.verdicts[JobId(2)].numbers)) == (Rule.DEPENDENCY, {"after": "ok:1"})
    play.happen(an_exit(1)).settle()
    assert play.launched().keys() == {1, 2}


def test_a_dependency_that_can_never_hold_ends_the_job_and_those_that_wait_for_it() -> None:
    play = on(2, a_job(1), waiting(2, "ok:1"), waiting(3, "ok:2"), waiting(4, "any:2"), waiting(5, "fail:1 any:1"))
    play.happen(an_exit(1, code=1)).settle()
    abandoned = [action for action in play.done if isinstance(action, Abandon)]
    assert [action.job for action in abandoned] == [2, 3]
    assert abandoned[0].reason == "it waited for ok:1, which can never hold any more"
    assert play.launched().keys() == {1, 4, 5}


def test_what_holds_of_several_dependencies_is_left_out_of_the_reason() -> None:
    play = on(2, a_job(1), a_job(2), waiting(3, "ok:1 any:2"))
    play.happen(an_exit(1)).settle()
    assert dict(play.state.verdicts[JobId(3)].numbers) == {"after": "any:2"}
    play.happen(an_exit(2, Ending.LOST, None)).settle()
    assert 3 in play.launched()


def test_all_jobs_of_a_range_have_to_end() -> None:
    play = on(4, a_job(1), a_job(2), a_job(3), waiting(4, "ok:1-3"))
    play.happen(an_exit(1), an_exit(3)).settle()
    assert 4 not in play.launched()
    play.happen(an_exit(2)).settle()
    assert 4 in play.launched()


def test_what_waits_for_a_start_goes_on_when_all_of_a_range_run_or_have_ended() -> None:
    play = on(3, a_job(1), a_job(2), a_job(3), waiting(4, "start:1-2 any:3"))
    assert dict(play.state.verdicts[JobId(4)].numbers) == {"after": "start:1-2 any:3"}
    play.happen(a_start(1)).settle()
    assert dict(play.state.verdicts[JobId(4)].numbers) == {"after": "start:1-2 any:3"}
    play.happen(a_start(2)).settle()
    assert dict(play.state.verdicts[JobId(4)].numbers) == {"after": "any:3"}


@pytest.mark.parametrize("how", ["it runs", "it ran", "it was cancelled"])
def test_a_start_that_has_been_is_not_waited_for(how: str) -> None:
    play = on(2, a_job(1))
    if how == "it was cancelled":
        play.happen(Submitted(waiting(2, "start:1"))).settle().happen(CancelRequested(JobId(1), "ada"))
        play.happen(an_exit(1, Ending.NEVER_STARTED, None)).settle()
    else:
        play.happen(a_start(1), *([an_exit(1)] if how == "it ran" else [])).settle()
        play.happen(Submitted(waiting(2, "start:1"))).settle()
    assert 2 in play.launched()


def test_a_job_that_will_run_again_has_not_ended() -> None:
    play = on(1, a_job(1, requeue_on_node_fail=True), waiting(2, "any:1"))
    play.happen(an_exit(1, Ending.LOST, None)).settle()
    assert play.job_state(1) is JobState.STARTING
    assert 2 not in play.launched()


def test_a_job_starts_no_earlier_than_it_is_to() -> None:
    play = on(1, waiting(1, not_before=150.0))
    assert (play.reason(1), play.launched()) == (Rule.BEGIN_TIME, {})
    play.happen(a_report(a_device()), after=50.0).settle()
    assert 1 in play.launched()
    assert play.state.jobs[JobId(1)].waits_since == 150.0, "its patience begins with its turn"


def test_of_singletons_of_one_user_and_name_one_runs_at_a_time() -> None:
    play = on(4, a_job(1, name="night"), *(waiting(n, name="night", singleton=True) for n in (2, 3)))
    play.happen(Submitted(waiting(4, name="night", singleton=True, owner="bob"))).settle()
    assert play.launched().keys() == {1, 4}
    assert play.reason(3) is Rule.SINGLETON
    play.happen(CancelRequested(JobId(2), "ada"), an_exit(1)).settle()
    assert play.launched().keys() == {1, 3, 4}


@pytest.mark.parametrize("hold_first", [True, False])
def test_a_held_job_goes_on_waiting_for_what_it_waited_for(hold_first: bool) -> None:
    play = on(2, a_job(1), waiting(2, "ok:1"))
    hold, release = HoldRequested(JobId(2), "ada"), ReleaseRequested(JobId(2), "ada")
    play.happen(hold, *([] if hold_first else [release])).settle()
    play.happen(an_exit(1)).settle()
    assert (2 in play.launched()) is not hold_first
    play.happen(release).settle()
    assert 2 in play.launched()


def test_many_that_wait_for_one_end_their_wait_at_once() -> None:
    play = on(1, a_job(1), *(waiting(n, "any:1") for n in range(2, 12)))
    play.happen(an_exit(1)).settle()
    assert [action.jobs for action in play.done if isinstance(action, EndWait)] == [tuple(range(2, 12))]
