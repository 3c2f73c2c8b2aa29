"""What the state tells of its attempts and devices."""

from __future__ import annotations

from dataclasses import fields

from gpuq.core.state.actions import Archive
from gpuq.core.state.apply import apply
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.dependency import Dependency, DependencyType
from gpuq.core.state.device import DeviceId
from gpuq.core.state.events import CancelRequested, Submitted
from gpuq.core.state.job import Job, JobId
from gpuq.core.state.state import State
from tests.support.nouns import a_device, a_job, a_report, a_start
from tests.support.playbook import Playbook, one_running


def test_a_state_built_from_the_fields_of_another_has_the_same_residents() -> None:
    state = one_running().state
    again = State(**{one.name: getattr(state, one.name) for one in fields(state) if one.init})
    assert again == state
    assert [attempt.id for attempt in again.residents_of(DeviceId("gpu0"))] == [AttemptId(JobId(1), 1)]


def test_what_a_device_has_promised_counts_all_residents_but_one() -> None:
    state = one_running().state
    (attempt,) = state.residents_of(DeviceId("gpu0"))
    assert state.promised_on(DeviceId("gpu0")) == attempt.promised[0] > 0
    assert state.promised_on(DeviceId("gpu0"), but=attempt.id) == 0


def test_the_live_attempts_of_a_job_are_those_of_its_last_start() -> None:
    play = Playbook().happen(a_report(a_device()), Submitted(a_job(1)))
    assert play.state.attempts_of(play.state.jobs[JobId(1)]) == []
    job = play.settle().happen(a_start(1)).state.jobs[JobId(1)]
    assert [attempt.id for attempt in play.state.attempts_of(job)] == [AttemptId(JobId(1), 1)]
    assert play.state.next_attempt(job) == 2


class CountingJobs(dict[JobId, Job]):
    """Jobs that count how often one is looked for."""

    looks = 0

    def __contains__(self, job: object) -> bool:
        self.looks += 1
        return super().__contains__(job)


def test_the_ends_of_an_array_cost_little_more_than_the_number_of_its_tasks() -> None:
    """A search from the first task on, at each end of one, would look half a million times."""
    tasks, last, now = 1000, JobId(1001), 100.0
    state = State()
    for task in range(1, tasks + 1):
        apply(state, Submitted(a_job(task)), now)
    apply(state, Submitted(a_job(last, after=(Dependency(DependencyType.ANY, 1, tasks),), eligible=False)), now)
    state.jobs = jobs = CountingJobs(state.jobs)
    for task in map(JobId, range(1, tasks + 1)):
        assert state.jobs[last].after
        apply(state, CancelRequested(task, "ada"), now)
        apply(state, Archive(task), now)
    assert not state.jobs[last].after
    assert not state.index.last_open
    assert not state.index.last_opens
    assert jobs.looks < 20 * tasks
