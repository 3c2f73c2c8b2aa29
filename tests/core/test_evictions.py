"""A policy may evict a running job; the core allows it if the job is preemptible, and queues the job again."""

from __future__ import annotations

from collections.abc import Iterator

from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.policy import Eviction, Proposal
from gpuq.core.state.actions import Launch, Requeue, Stop
from gpuq.core.state.attempt import AttemptId, Ending, StopReason
from gpuq.core.state.events import CancelRequested, Submitted
from gpuq.core.state.job import JobId, JobState
from gpuq.policies.lists.packed import packed
from tests.support.nouns import a_device, a_job, a_report, a_start, an_exit
from tests.support.playbook import Playbook


def urgent_first(context: SchedulingContext) -> Iterator[Proposal | Eviction]:
    """As packed; while an urgent job waits, also evict every attempt twice, and one that does not exist."""
    yield from packed(context)
    for job in context.waiting:
        if job.priority > 0:
            for attempt in (*context.state.attempts, *context.state.attempts, AttemptId(JobId(77), 1)):
                yield Eviction(attempt, job)


def running(*, preemptible: bool = True, started: bool = True) -> Playbook:
    play = (
        Playbook(policy=urgent_first)
        .happen(a_report(a_device()), Submitted(a_job(1, preemptible=preemptible)))
        .settle()
    )
    return play.happen(a_start(1, at=play.now)) if started else play


def stops(play: Playbook) -> list[Stop]:
    return [action for action in play.done if isinstance(action, Stop)]


def test_an_urgent_job_gets_the_device_of_one_that_may_be_stopped_which_comes_back_with_its_work() -> None:
    play = running().happen(Submitted(a_job(2, priority=1)), after=60).settle()
    assert stops(play) == [Stop(AttemptId(JobId(1), 1), StopReason.PREEMPTED)], "once, however often it is asked for"
    assert play.job_state(1) is JobState.COMPLETING

    play.happen(an_exit(1, Ending.STOPPED, 143), after=5)
    assert play.job_state(1) is JobState.PREEMPTED

    play.happen(a_report(a_device())).settle()
    assert any(isinstance(action, Requeue) for action in play.done)
    assert play.launched() == {1: "gpu0", 2: "gpu0"}
    assert (play.job_state(1), play.state.jobs[JobId(1)].served_s) == (JobState.PENDING, 65)

    play.happen(a_start(2), an_exit(2)).settle()
    again = [action.attempt for action in play.done if isinstance(action, Launch)][-1]
    assert again.id == AttemptId(JobId(1), 2)


def test_who_did_not_allow_it_is_left_alone() -> None:
    assert not stops(running(preemptible=False).happen(Submitted(a_job(2, priority=1))).settle())


def test_who_has_not_begun_to_run_is_left_alone() -> None:
    assert not stops(running(started=False).happen(Submitted(a_job(2, priority=1))).settle())


def test_who_is_being_stopped_is_not_stopped_again() -> None:
    play = running().happen(CancelRequested(JobId(1), "ada")).settle().happen(Submitted(a_job(2, priority=1))).settle()

    assert [stop.reason for stop in stops(play)] == [StopReason.CANCELLED]


def test_no_job_is_evicted_for_a_job_that_was_placed_in_this_pass() -> None:
    def both(context: SchedulingContext) -> Iterator[Proposal | Eviction]:
        for job in context.waiting:
            for snapshots in context.choices(job):
                yield Proposal(job, tuple(snapshot.device for snapshot in snapshots))
            yield from (Eviction(attempt, job) for attempt in context.state.attempts)

    play = Playbook(policy=both).happen(a_report(a_device("gpu0"), a_device("gpu1")))
    play.happen(Submitted(a_job(1, preemptible=True))).settle().happen(a_start(1))

    play.happen(Submitted(a_job(2))).settle()
    assert play.launched() == {1: "gpu0", 2: "gpu1"}
    assert not stops(play)


def test_no_job_is_evicted_for_a_job_that_does_not_wait() -> None:
    def for_unknown_job(context: SchedulingContext) -> Iterator[Proposal | Eviction]:
        yield from packed(context)
        yield from (Eviction(attempt, a_job(99)) for attempt in context.state.attempts)

    play = Playbook(policy=for_unknown_job).happen(a_report(a_device()), Submitted(a_job(1, preemptible=True))).settle()

    assert not stops(play.happen(a_start(1)).settle())
