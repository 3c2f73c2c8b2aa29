"""What becomes of attempts, and what their ends mean for their jobs."""

from __future__ import annotations

import pytest

from gpuq.core.state.actions import Pause, Revise
from gpuq.core.state.apply import apply
from gpuq.core.state.attempt import AttemptId, Ending
from gpuq.core.state.events import CancelRequested, Event, Submitted, Woke
from gpuq.core.state.job import JobId, JobState
from tests.support.nouns import GIB, a_device, a_forecast, a_job, a_report, a_resident, a_start, an_exit
from tests.support.playbook import Playbook, one_running

FIRST, SECOND = AttemptId(JobId(1), 1), AttemptId(JobId(2), 1)


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


def test_the_time_that_a_preempted_job_ran_does_not_count_as_waiting() -> None:
    play = Playbook().happen(a_report(a_device()), Submitted(a_job(1, preemptible=True, submitted_at=60.0))).settle()

    play.happen(a_start(1)).happen(an_exit(1, Ending.STOPPED, 143), after=7200.0).settle()

    assert play.job_state(1) is JobState.PENDING
    assert play.now - play.state.jobs[JobId(1)].waits_since == 40.0, "it had waited so long when it was started"


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


def two_that_share() -> Playbook:
    """Jobs 1 and 2, 4 GiB promised to each, run on the only device of 24 GiB."""
    play = Playbook().forecast("kind", a_forecast(30, 4))
    play.happen(a_report(a_device()), Submitted(a_job(1)), Submitted(a_job(2))).settle()
    return play.happen(a_start(1), a_start(2))


@pytest.mark.parametrize(
    ("shares", "gib", "taken"), [(True, 20, True), (True, 21, False), (False, 4, False), (False, 20, False)]
)
def test_a_revision_leaves_a_partner_its_memory_and_its_place(shares: bool, gib: int, taken: bool) -> None:
    play = two_that_share()
    revision = Revise(FIRST, a_forecast(40, gib), shares, (gib * GIB,))

    assert apply(play.state, revision, play.now) is taken
    assert play.state.attempts[FIRST].promised == ((gib if taken else 4) * GIB,)


def test_of_two_attempts_one_goes_on_running() -> None:
    play = two_that_share()
    assert apply(play.state, Pause(FIRST, SECOND), play.now)

    assert not apply(play.state, Pause(SECOND, FIRST), play.now)
    assert play.state.attempts[SECOND].paused_for is None


def test_an_attempt_started_no_later_than_was_heard_of_it() -> None:
    """Its host's clock may be ahead."""
    play = Playbook().happen(a_report(a_device()), Submitted(a_job(1))).settle()

    play.happen(a_start(1, at=play.now + 900), after=5)
    assert play.state.attempts[FIRST].started_at == play.now


def test_an_owner_is_charged_from_the_start_and_not_from_the_launch() -> None:
    play = Playbook().happen(a_report(a_device()), Submitted(a_job(1))).settle()

    play.happen(a_start(1, at=play.now + 40), after=40).happen(an_exit(1), after=60)
    assert {sum(hours.values()) for hours in play.state.served.values()} == {60.0}


def test_the_exit_code_of_an_attempt_that_was_stopped_says_nothing() -> None:
    play = one_running().happen(CancelRequested(JobId(1), "ada")).settle()

    play.happen(an_exit(1, Ending.STOPPED, 143))
    assert play.state.jobs[JobId(1)].exit_code is None
