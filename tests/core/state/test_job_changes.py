"""What becomes of jobs that are cancelled or held."""

from __future__ import annotations

from gpuq.core.state.actions import Requeue, Stop
from gpuq.core.state.apply import apply
from gpuq.core.state.attempt import AttemptId, Ending, StopReason
from gpuq.core.state.events import CancelRequested, HoldRequested, ReleaseRequested, Submitted
from gpuq.core.state.job import JobId, JobState
from tests.support.nouns import a_device, a_job, a_report, a_start, an_exit
from tests.support.playbook import Playbook, one_running


def test_cancelling_a_waiting_job_ends_it_at_once() -> None:
    play = Playbook().happen(Submitted(a_job(1)), CancelRequested(JobId(1), "ada"))

    assert play.job_state(1) is JobState.CANCELLED


def test_cancelling_a_running_job_stops_its_attempt_first() -> None:
    play = one_running().happen(CancelRequested(JobId(1), "ada"))
    assert play.job_state(1) is JobState.RUNNING

    assert play.decide() == [Stop(AttemptId(JobId(1), 1), StopReason.CANCELLED)]
    assert play.job_state(1) is JobState.COMPLETING

    play.happen(an_exit(1, Ending.STOPPED, 143))
    assert play.job_state(1) is JobState.CANCELLED


def test_a_job_that_finished_before_its_cancel_took_effect_has_completed() -> None:
    play = one_running().happen(CancelRequested(JobId(1), "ada")).settle()

    assert play.happen(an_exit(1)).job_state(1) is JobState.COMPLETED


def test_a_held_job_waits_until_released() -> None:
    play = Playbook().happen(Submitted(a_job(1)), HoldRequested(JobId(1), "ada"), a_report(a_device())).settle()
    assert play.job_state(1) is JobState.HELD

    play.happen(ReleaseRequested(JobId(1), "ada")).settle()
    assert play.job_state(1) is JobState.STARTING


def test_time_on_hold_does_not_count_as_waiting() -> None:
    play = Playbook().happen(Submitted(a_job(1, submitted_at=60.0)), HoldRequested(JobId(1), "ada"))

    play.happen(ReleaseRequested(JobId(1), "ada"), after=5000.0)

    assert play.now - play.state.jobs[JobId(1)].waits_since == 40.0, "it had waited so long when it was held"


def test_a_running_job_cannot_be_held() -> None:
    play = one_running()

    assert not apply(play.state, HoldRequested(JobId(1), "ada"), play.now)


def test_a_job_that_starts_again_keeps_to_itself_and_forgets_its_last_end() -> None:
    play = Playbook().happen(a_report(a_device()), Submitted(a_job(1, alone=True))).settle()
    play.happen(a_start(1), an_exit(1, Ending.OUT_OF_MEMORY, 1))
    assert play.state.jobs[JobId(1)].ran_out_of is not None

    assert apply(play.state, Requeue(JobId(1), alone=False, reason="again"), play.now)
    job = play.state.jobs[JobId(1)]
    assert (job.state, job.alone, job.ran_out_of) == (JobState.PENDING, True, None)
