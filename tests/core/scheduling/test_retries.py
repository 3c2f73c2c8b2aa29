"""Jobs that start again after a bad end: how often, when, and with how much memory."""

from __future__ import annotations

from typing import Any

import pytest

from gpuq.core.measuring.measurement import Measurement
from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.retries import retry_of
from gpuq.core.state.actions import Requeue
from gpuq.core.state.attempt import AttemptId, Ending
from gpuq.core.state.device import Device
from gpuq.core.state.events import CancelRequested, Exited, Submitted
from gpuq.core.state.job import Job, JobId, JobState
from gpuq.core.state.retry import RetryRule
from gpuq.core.state.verdict import Rule
from tests.support.nouns import GIB, a_device, a_forecast, a_job, a_report, an_exit
from tests.support.playbook import Playbook

SMALL, LARGE = a_device("small", gib=24), a_device("large", gib=80)


def trying(rules: str, number: int = 1, **changes: Any) -> Job:
    return a_job(number, retry=tuple(map(RetryRule.parse, rules.split())), **changes)


def on(job: Job, *devices: Device) -> Playbook:
    return Playbook().happen(a_report(*devices or (SMALL,)), Submitted(job)).settle()


def end(play: Playbook, attempt: int, ending: Ending = Ending.EXITED, code: int | None = 1, peak: int = 0) -> None:
    measured = Measurement(peak_memory_bytes=peak or None)
    play.happen(Exited(AttemptId(JobId(1), attempt), play.now, ending, code, "", measured)).settle()


def later(play: Playbook, *devices: Device) -> Playbook:
    return play.happen(a_report(*devices or (SMALL,)), after=600).settle()


def requeues(play: Playbook) -> list[Requeue]:
    return [action for action in play.done if isinstance(action, Requeue)]


def test_each_end_has_its_own_number_of_retries() -> None:
    play = on(trying("exit=75:1 any:2"))
    for attempt, code in enumerate((75, 1, 1), start=1):
        end(play, attempt, code=code)
        assert play.job_state(1) is JobState.PENDING
        later(play)
    end(play, 4, code=75)
    assert JobId(1) not in play.state.jobs, "exit=75:1 is used up, and any:2 is for other ends"
    assert [requeue.reason for requeue in requeues(play)] == [
        "retry 1 of 1 after exit code 75, in 10 s",
        "retry 1 of 2 after its failure, in 20 s",
        "retry 2 of 2 after its failure, in 40 s",
    ]


def test_a_job_waits_out_its_pause() -> None:
    play = on(trying("any:2"))
    end(play, 1)
    assert (play.reason(1), play.state.index.waiting) == (Rule.BACKOFF, {})
    play.happen(a_report(SMALL), after=9.9).settle()
    assert play.job_state(1) is JobState.PENDING
    play.happen(a_report(SMALL), after=0.2).settle()
    assert play.job_state(1) is JobState.STARTING


def test_after_a_time_limit_it_starts_again_at_once_and_is_counted() -> None:
    play = on(trying("timeout:1"))
    end(play, 1, Ending.TIMED_OUT, None)
    assert play.job_state(1) is JobState.STARTING
    end(play, 2, Ending.TIMED_OUT, None)
    assert JobId(1) not in play.state.jobs


@pytest.mark.parametrize(("rules", "retries"), [("", 3), ("node:1", 1)])
def test_the_loss_of_a_host_is_counted_only_where_there_is_a_number(rules: str, retries: int) -> None:
    play = on(trying(rules, requeue_on_node_fail=True))
    for attempt in range(1, 4):
        end(play, attempt, Ending.LOST, None)
        later(play)
    assert len(requeues(play)) == retries


def test_a_job_that_loses_its_host_soon_after_each_start_waits_ever_longer() -> None:
    play = on(a_job(1, requeue_on_node_fail=True))
    end(play, 1, Ending.LOST, None)
    assert play.job_state(1) is JobState.STARTING, "the first one comes at once"
    for attempt, wait_s in ((2, 10), (3, 20), (4, 40)):
        end(play, attempt, Ending.DEVICE_FAILED, 1)
        assert play.reason(1) is Rule.BACKOFF
        assert requeues(play)[-1].not_before == play.now + wait_s
        later(play)
    play.happen(a_report(SMALL), after=3600)
    end(play, 5, Ending.LOST, None)
    assert play.job_state(1) is JobState.STARTING, "a run of an hour is not ended by the job itself"


def test_a_cancelled_job_is_not_tried_again() -> None:
    play = on(trying("any:5"))
    play.happen(CancelRequested(JobId(1), "ada"), an_exit(1, code=143)).settle()
    assert requeues(play) == []


def test_out_of_memory_beside_a_partner_is_no_retry() -> None:
    play = Playbook().happen(a_report(LARGE))
    for kind in ("a", "b"):
        play.forecast(kind, a_forecast(20, 4))
    play.happen(Submitted(trying("oom:1", kind="a")), Submitted(a_job(2, kind="b"))).settle()
    assert len(play.state.residents[LARGE.id]) == 2
    play.happen(an_exit(1, Ending.OUT_OF_MEMORY, 1)).settle()
    assert (play.state.jobs[JobId(1)].alone, play.state.jobs[JobId(1)].retried) == (True, ())


def test_after_out_of_memory_half_as_much_again_is_promised() -> None:
    play = on(trying("oom:2"), LARGE)
    end(play, 1, Ending.OUT_OF_MEMORY, peak=20 * GIB)
    requeue = requeues(play)[0]
    # The first attempt had the device (80 GiB) to itself, because nothing was known of its kind.
    assert (requeue.memory, requeue.alone) == (72 * GIB, True)
    assert "72.0 GiB are promised to it, and it runs alone" in requeue.reason

    play = Playbook().happen(a_report(LARGE)).forecast("a", a_forecast(20, 4))
    play.happen(Submitted(trying("oom:2", kind="a"))).settle()
    end(play, 1, Ending.OUT_OF_MEMORY, peak=20 * GIB)
    later(play, LARGE)
    attempt = play.state.attempts[AttemptId(JobId(1), 2)]
    assert (attempt.promised, attempt.shares) == ((30 * GIB,), True)


def test_a_job_that_ran_out_of_a_small_device_gets_a_larger_one() -> None:
    play = on(trying("oom:2", kind="a"), SMALL).happen(a_report(SMALL, LARGE))
    end(play, 1, Ending.OUT_OF_MEMORY)
    assert (requeues(play)[0].memory, requeues(play)[0].alone) == (36 * GIB, False)
    later(play, SMALL, LARGE)
    assert play.state.attempts[AttemptId(JobId(1), 2)].devices == ("large",)


def test_memory_of_the_host_is_that_of_the_device_only_for_cores() -> None:
    play = on(trying("oom:1"), LARGE)
    end(play, 1, Ending.HOST_OUT_OF_MEMORY)
    assert requeues(play)[0].memory is None


def test_after_out_of_memory_more_is_promised_than_was_declared_and_than_it_had() -> None:
    rule = RetryRule.parse("oom:1")
    for had, declared, wanted in ((10, 20, 30), (20, 10, 30), (20, None, 30)):
        memory = None if declared is None else declared * GIB
        job = trying("oom:1", ran_out_of=had * GIB, declared_memory=memory)
        requeue = retry_of(on(a_job(2), LARGE).state, job, rule, Limits(), 0.0)
        assert requeue is not None
        assert requeue.memory == wanted * GIB


def test_a_retry_after_a_time_limit_makes_no_later_one_wait_longer() -> None:
    play = on(trying("timeout:1 any:1"))
    end(play, 1, Ending.TIMED_OUT, None)
    end(play, 2)
    assert requeues(play)[-1].reason == "retry 1 of 1 after its failure, in 10 s"


def test_where_no_device_has_half_as_much_again_the_job_gets_the_largest_and_not_the_one_that_it_ran_out_of() -> None:
    first, larger = a_device("first", gib=20), a_device("larger", gib=24)
    play = on(trying("oom:1"), first).happen(a_report(first, larger))
    end(play, 1, Ending.OUT_OF_MEMORY)
    later(play, first, larger)
    assert play.state.attempts[AttemptId(JobId(1), 2)].devices == ("larger",)
