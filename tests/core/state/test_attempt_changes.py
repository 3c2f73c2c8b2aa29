"""What becomes of attempts, and what their ends mean for their jobs."""

from __future__ import annotations

import pytest

from gpuq.core.state.apply import apply
from gpuq.core.state.attempt import AttemptId, Ending
from gpuq.core.state.events import Event, Submitted, Woke
from gpuq.core.state.job import JobId, JobState
from tests.support.nouns import a_device, a_forecast, a_job, a_report, a_resident, a_start, an_exit
from tests.support.playbook import Playbook, one_running


@pytest.mark.parametrize(
    ("ending", "code", "state"),
    [
        (Ending.EXITED, 0, JobState.COMPLETED),
        (Ending.EXITED, 3, JobState.FAILED),
        (Ending.EXITED, 139, JobState.FAILED),
        (Ending.KILLED, 137, JobState.FAILED),
        (Ending.DRIVER_ERROR, 1, JobState.FAILED),
        (Ending.TIMED_OUT, 143, JobState.TIMEOUT),
        (Ending.OUT_OF_MEMORY, 1, JobState.OUT_OF_MEMORY),
        (Ending.HOST_OUT_OF_MEMORY, 137, JobState.OUT_OF_MEMORY),
        (Ending.DEVICE_FAILED, 1, JobState.NODE_FAIL),
        (Ending.LOST, None, JobState.NODE_FAIL),
        (Ending.NEVER_STARTED, None, JobState.NODE_FAIL),
    ],
)
def test_how_an_attempt_ended_says_how_the_job_ended(ending: Ending, code: int | None, state: JobState) -> None:
    play = one_running().happen(an_exit(1, ending, code))

    assert play.job_state(1) is state


def test_an_exit_can_overtake_its_start() -> None:
    play = Playbook().happen(a_report(a_device()), Submitted(a_job(1))).settle()

    play.happen(an_exit(1), a_start(1))

    assert play.job_state(1) is JobState.COMPLETED


def test_an_attempt_that_never_started_puts_its_job_back() -> None:
    play = Playbook().happen(a_report(a_device()), Submitted(a_job(1))).settle()

    play.happen(an_exit(1, Ending.NEVER_STARTED, None))
    assert play.job_state(1) is JobState.PENDING

    play.settle()
    assert play.state.jobs[JobId(1)].attempt == 2
    assert not apply(play.state, a_start(1, attempt=1), play.now), "the first attempt is history"


@pytest.mark.parametrize("ending", [Ending.OUT_OF_MEMORY, Ending.HOST_OUT_OF_MEMORY])
def test_out_of_memory_beside_a_partner_runs_again_alone(ending: Ending) -> None:
    play = Playbook().forecast("kind", a_forecast(30, 2))
    play.happen(a_report(a_device()), Submitted(a_job(1)), Submitted(a_job(2))).settle()
    play.happen(a_start(1), a_start(2)).happen(an_exit(2, ending, 1)).settle()

    job = play.state.jobs[JobId(2)]
    assert (job.state, job.alone) == (JobState.PENDING, True)

    play.happen(an_exit(1)).settle().happen(a_start(2, 2), an_exit(2, ending, 1, attempt=2)).settle()
    assert play.job_state(2) is None, "alone it has had its chance: the end is for good"


def test_out_of_memory_with_no_partner_is_the_jobs_own_doing() -> None:
    assert one_running().happen(an_exit(1, Ending.OUT_OF_MEMORY, 1)).settle().job_state(1) is None


@pytest.mark.parametrize("ending", [Ending.LOST, Ending.DEVICE_FAILED])
def test_a_lost_host_or_device_ends_a_job_unless_its_submitter_wanted_it_again(ending: Ending) -> None:
    assert one_running().happen(an_exit(1, ending, None)).settle().job_state(1) is None
    play = Playbook().happen(a_report(a_device()), Submitted(a_job(1, requeue_on_node_fail=True))).settle()

    play.happen(a_start(1), an_exit(1, ending, None)).settle()

    assert play.state.jobs[JobId(1)].attempt == 2


def test_a_kill_and_a_driver_that_will_not_serve_it_are_for_good() -> None:
    """Nothing says that a second time would go better: who wants one submits again."""
    for ending in (Ending.KILLED, Ending.DRIVER_ERROR):
        play = Playbook().happen(a_report(a_device()), Submitted(a_job(1, requeue_on_node_fail=True))).settle()
        assert play.happen(a_start(1), an_exit(1, ending, 137)).settle().job_state(1) is None


def test_an_attempt_its_host_never_mentions_is_voided_and_a_mention_takes_that_back() -> None:
    play = Playbook().happen(a_report(a_device()), Submitted(a_job(1))).settle()
    play.happen(a_report(a_device()), after=30).decide()
    attempt = AttemptId(JobId(1), 1)
    assert play.state.attempts[attempt].revoking

    play.happen(a_report(a_device(), residents=(a_resident(1),)))
    assert not play.state.attempts[attempt].revoking


@pytest.mark.parametrize("sign", [a_start(1), a_report(a_device(), residents=(a_resident(1),))])
def test_an_attempt_that_a_silent_host_reported_is_not_revoked(sign: Event) -> None:
    play = Playbook().happen(a_report(a_device()), Submitted(a_job(1))).settle().happen(sign)

    assert play.happen(Woke(), after=3600).decide() == []
