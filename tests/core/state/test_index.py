"""What the index derives from the state: waiting jobs in groups, and what changed since the last look."""

from __future__ import annotations

from gpuq.core.state.actions import SetPendingReason
from gpuq.core.state.apply import apply
from gpuq.core.state.constraints import DeviceConstraints
from gpuq.core.state.events import CancelRequested, HoldRequested, ReleaseRequested, Submitted
from gpuq.core.state.index import Index, latest_since, scheduling_class
from gpuq.core.state.job import Job, JobId
from gpuq.core.state.state import State
from gpuq.core.state.validate import rebuilt
from gpuq.core.state.verdict import Rule, Verdict
from tests.support.nouns import a_device, a_job, a_report, a_resident, a_start, an_exit
from tests.support.playbook import Playbook


def queue(*jobs: Job) -> State:
    state = State()
    for job in jobs:
        apply(state, Submitted(job), 0.0)
    return state


def groups(state: State) -> list[list[int]]:
    return sorted([int(job.id) for job in group.jobs] for group in state.index.groups.values())


def test_jobs_are_grouped_by_class_priority_and_owner() -> None:
    state = queue(a_job(1), a_job(2), a_job(3, priority=1), a_job(4, owner="bob"), a_job(5, kind="other"))

    assert groups(state) == [[1, 2], [3], [4], [5]]
    assert len(state.index.classes) == 3, "priority does not change what a device says to a job"


def test_a_group_is_in_order_of_submission_whatever_the_order_of_arrival() -> None:
    state = queue(a_job(1, submitted_at=30.0), a_job(2, submitted_at=10.0), a_job(3, submitted_at=20.0))
    assert groups(state) == [[2, 3, 1]]
    (group,) = state.index.groups.values()
    assert group.head.id == 2


def test_jobs_that_leave_the_queue_leave_their_group_and_the_last_one_takes_it_away() -> None:
    state = queue(a_job(1), a_job(2))
    apply(state, CancelRequested(JobId(1), "ada"), 1.0)
    assert groups(state) == [[2]]
    apply(state, HoldRequested(JobId(2), "ada"), 1.0)
    assert (state.index.groups, state.index.classes, state.index.waiting) == ({}, {}, {})
    apply(state, ReleaseRequested(JobId(2), "ada"), 1.0)
    assert groups(state) == [[2]]


def test_a_job_needs_a_verdict_until_it_has_one_and_again_after_a_hold() -> None:
    state = queue(a_job(1), a_job(2))
    apply(state, SetPendingReason((JobId(1),), Verdict(False, Rule.RESOURCES)), 1.0)
    assert list(state.index.needs_verdict) == [2]
    apply(state, HoldRequested(JobId(1), "ada"), 1.0)
    apply(state, ReleaseRequested(JobId(1), "ada"), 1.0)
    assert sorted(state.index.needs_verdict) == [1, 2]


def test_ended_jobs_and_attempts_to_cancel_are_listed_until_they_are_dealt_with() -> None:
    play = Playbook().happen(a_report(a_device()), Submitted(a_job(1))).settle()
    play.happen(a_start(1), CancelRequested(JobId(1), "ada"))
    assert list(play.state.index.cancelling) == [1]
    play.happen(an_exit(1))
    assert (list(play.state.index.cancelling), list(play.state.index.ended)) == ([], [1])
    play.settle()
    assert not play.state.index.ended


def test_the_attempt_that_was_silent_for_longest_comes_first() -> None:
    devices = (a_device("gpu0"), a_device("gpu1"))
    play = Playbook().happen(a_report(*devices), Submitted(a_job(1)), Submitted(a_job(2))).settle()
    play.happen(a_report(*devices, residents=(a_resident(1),)), after=1.0)
    assert [attempt.job for attempt in play.state.index.last_heartbeats] == [2, 1]


def test_only_devices_that_were_touched_are_looked_at_again() -> None:
    near, far = a_device("near"), a_device("far", host="there")
    state = State()
    apply(state, a_report(near), 0.0)
    apply(state, a_report(far, host="there"), 0.0)
    seen = state.index.touches
    assert state.index.touched_since(seen) == []

    apply(state, a_report(far, host="there"), 1.0)

    assert state.index.touched_since(seen) == ["far"]


def test_latest_since_gives_the_latest_first_and_stops_at_the_number() -> None:
    index = Index()
    for device in ("a", "b", "c", "a"):
        index.touch(a_device(device).id)
    assert latest_since(index.touched, 0) == ["a", "c", "b"]
    assert latest_since(index.touched, 2) == ["a", "c"]
    assert latest_since(index.touched, 4) == []


def test_an_index_rebuilt_from_the_state_is_the_same() -> None:
    play = Playbook().happen(a_report(a_device("gpu0"), a_device("gpu1")))
    play.happen(*(Submitted(a_job(number, kind=f"kind{number % 3}")) for number in range(1, 9))).settle()
    play.happen(a_start(1), an_exit(1), CancelRequested(JobId(4), "ada"), HoldRequested(JobId(5), "ada"))

    assert rebuilt(play.state).index == play.state.index


def test_the_scheduling_class_is_the_forecast_and_the_wishes() -> None:
    job = a_job(1)
    assert scheduling_class(job) == scheduling_class(a_job(2, priority=7, submitted_at=9.0))
    for different in (
        {"signature": "other"},
        {"alone": True},
        {"max_slowdown": 1.5},
        {"device_count": 2},
        {"most_devices": 4},
        {"constraints": DeviceConstraints(types=("a",))},
        {"owner": "bob"},
        {"time_limit_s": 60.0},
    ):
        assert scheduling_class(job) != scheduling_class(a_job(1, **different))
