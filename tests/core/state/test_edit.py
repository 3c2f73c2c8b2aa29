"""What can be changed of a job after its submission, and what becomes of it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.actions import Reserve, Stop
from gpuq.core.state.apply import apply
from gpuq.core.state.attempt import AttemptId, Ending, StopReason
from gpuq.core.state.edit import JobEdit, edit_of
from gpuq.core.state.events import HoldRequested, JobEdited, ReleaseRequested, Submitted
from gpuq.core.state.job import Job, JobId, JobState, Sharing
from gpuq.core.state.verdict import Rule
from tests.support.nouns import GIB, a_device, a_job, a_report, a_resident, a_start, an_exit
from tests.support.playbook import Playbook


def edited(number: int, **changes: Any) -> JobEdited:
    return JobEdited(JobId(number), edit_of(changes), "ada")


def job(play: Playbook, number: int) -> Job:
    return play.state.jobs[JobId(number)]


def one_runs_two_wait(**of_first: Any) -> Playbook:
    play = Playbook().happen(a_report(a_device()), Submitted(a_job(1, **of_first))).settle()
    return play.happen(a_start(1), Submitted(a_job(2)), Submitted(a_job(3))).settle()


def test_a_waiting_job_that_is_given_a_higher_priority_starts_first() -> None:
    play = one_runs_two_wait().happen(edited(3, priority=5)).happen(an_exit(1)).settle()

    assert list(play.launched()) == [1, 3]


def test_every_field_changes_and_goes_back() -> None:
    play = one_runs_two_wait()
    before = job(play, 2)
    values = {"max_slowdown": 1.3, "gpu_memory": 4 * GIB, "time_limit_s": 60.0, "deadline_at": 900.0}

    play.happen(edited(2, name="x", priority=5, share=Sharing.NEVER, **values))
    after = job(play, 2)
    assert (after.name, after.priority, after.sharing, after.max_slowdown) == ("x", 5, Sharing.NEVER, 1.3)
    assert (after.declared_memory, after.time_limit_s, after.deadline_at) == (4 * GIB, 60.0, 900.0)

    play.happen(edited(2, name=None, priority=0, share=Sharing.AUTO, **dict.fromkeys(values)))
    assert job(play, 2) == before


def test_a_job_that_is_given_a_moment_waits_for_it_and_one_without_starts_at_once() -> None:
    play = Playbook().happen(Submitted(a_job(1)), Submitted(a_job(2)), edited(1, begin_at=500.0)).settle()
    play.happen(edited(2, begin_at=500.0), edited(2, begin_at=None), a_report(a_device())).settle()
    assert list(play.launched()) == [2]
    assert play.reason(1) is Rule.BEGIN_TIME

    play.happen(an_exit(2), a_report(a_device()), after=500.0).settle()

    assert list(play.launched()) == [2, 1]


def test_a_held_job_stays_held() -> None:
    play = one_runs_two_wait().happen(HoldRequested(JobId(2), "ada"), edited(2, begin_at=400.0, priority=5))
    assert play.job_state(2) is JobState.HELD

    play.happen(ReleaseRequested(JobId(2), "ada")).settle()

    assert play.reason(2) is Rule.BEGIN_TIME


def test_the_devices_that_are_reserved_for_a_job_are_open_again_unless_only_its_labels_change() -> None:
    devices = (a_device("gpu0"), a_device("gpu1"))
    play = Playbook(Limits(patience_s=1.0)).happen(a_report(*devices), Submitted(a_job(1))).settle()
    play.happen(a_start(1), Submitted(a_job(2, device_count=2))).settle()
    play.happen(a_report(*devices), after=60.0).settle()
    assert [type(action) for action in play.done].count(Reserve) == 1

    play.happen(edited(2, name="x", notify=("end",)))
    assert JobId(2) in play.state.reservations
    play.happen(edited(2, priority=-5))
    assert JobId(2) not in play.state.reservations


def test_of_a_running_job_the_name_and_a_shorter_time_limit_can_be_changed() -> None:
    play = one_runs_two_wait(time_limit_s=3600.0)
    play.happen(edited(1, name="x", time_limit_s=600.0))
    assert (job(play, 1).name, job(play, 1).time_limit_s) == ("x", 600.0)

    play.happen(edited(1, time_limit_s=3600.0))
    assert job(play, 1).time_limit_s == 3600.0, "as long as it started with"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"priority": 5, "time_limit_s": 60.0}, "runs: priority cannot be changed any more"),
        ({"gpu_memory": GIB, "begin_at": None}, "runs: begin at and gpu memory cannot be changed any more"),
        ({"time_limit_s": 7200.0}, "runs with a time limit of 3600 s, which can be made shorter, not longer"),
        ({"time_limit_s": None}, "runs with a time limit of 3600 s, which can be made shorter, not longer"),
    ],
)
def test_a_running_job_is_changed_wholly_or_not_at_all(changes: dict[str, Any], why: str) -> None:
    play = one_runs_two_wait(time_limit_s=3600.0)
    before = copy.deepcopy(play.state)

    assert not apply(play.state, edited(1, **changes), play.now)

    assert play.state == before
    assert edit_of(changes).obstacle(JobState.RUNNING, 3600.0) == why


@pytest.mark.parametrize("state", [JobState.STARTING, JobState.COMPLETING, JobState.COMPLETED])
def test_a_job_that_neither_waits_nor_runs_cannot_be_edited(state: JobState) -> None:
    assert edit_of({"name": "x"}).obstacle(state, None) == f"cannot be edited: it is {state}"


def test_the_same_edit_twice_changes_nothing() -> None:
    play = one_runs_two_wait().happen(edited(2, priority=5))

    assert not apply(play.state, edited(2, priority=5), play.now)
    assert not apply(play.state, edited(9, priority=5), play.now), "there is no such job"


def test_a_job_ends_at_a_limit_that_was_made_shorter_while_it_ran() -> None:
    here = a_report(a_device(), residents=(a_resident(1),))
    play = one_runs_two_wait().happen(edited(1, time_limit_s=60.0)).happen(here, after=59.0)
    assert not play.decide()

    play.happen(here, after=1.0)
    assert play.decide()[0] == Stop(AttemptId(JobId(1), 1), StopReason.TIME_LIMIT)

    play.happen(an_exit(1, Ending.STOPPED, 143))
    assert play.job_state(1) is JobState.TIMEOUT


def test_a_singleton_starts_when_the_one_before_it_gets_another_name() -> None:
    play = Playbook().happen(a_report(a_device("gpu0"), a_device("gpu1")))
    wait = {"name": "night", "singleton": True, "eligible": False}
    play.happen(Submitted(a_job(1, name="night")), Submitted(a_job(2, **wait))).settle()
    play.happen(a_start(1))
    assert play.reason(2) is Rule.SINGLETON

    play.happen(edited(1, name="day")).settle()

    assert list(play.launched()) == [1, 2]


def test_a_singleton_waits_for_an_earlier_job_that_gets_its_name() -> None:
    play = Playbook().happen(Submitted(a_job(1)))
    play.happen(Submitted(a_job(2, name="night", singleton=True, eligible=False, not_before=150.0))).settle()
    assert play.reason(2) is Rule.BEGIN_TIME

    play.happen(edited(1, name="night")).settle()
    assert play.reason(2) is Rule.SINGLETON

    play.happen(a_report(a_device("gpu0"), a_device("gpu1")), after=100.0).settle()
    assert list(play.launched()) == [1]


def test_two_edits_as_one() -> None:
    first, later = edit_of({"priority": 5, "time_limit_s": 60.0}), edit_of({"time_limit_s": None, "name": "x"})

    assert first.then(later) == JobEdit(priority=5, name="x", reset=("time_limit_s",))
    assert later.then(first).changes == {"name": "x", "priority": 5, "time_limit_s": 60.0}


def test_a_job_over_several_hosts_never_shares() -> None:
    assert edit_of({"share": Sharing.AUTO}).applied_to(a_job(1, host_count=2)).sharing is Sharing.NEVER
