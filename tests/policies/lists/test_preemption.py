"""Preemption: two devices are busy with preemptible jobs when a job of a higher priority is submitted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.actions import Stop
from gpuq.core.state.attempt import Ending, StopReason
from gpuq.core.state.edit import JobEdit
from gpuq.core.state.events import CancelRequested, Event, JobEdited, QuotaRemoved, QuotaSet, Submitted
from gpuq.core.state.job import JobId
from gpuq.core.state.quota import Account, Quota, QuotaScope
from gpuq.policies.lists import preemption
from gpuq.policies.lists.packed import make
from gpuq.settings import Scheduling
from tests.support.nouns import GIB, a_device, a_forecast, a_job, a_reading, a_report, a_start, an_exit
from tests.support.playbook import Playbook

EXCLUSIVE = Limits(residents_per_device=1, stale_after_s=float("inf"))


def two_run(*, wanted: bool = True, preemptible: bool = True, second: int = 0) -> Playbook:
    """Jobs 1 and 2, the second of this priority and a minute younger."""
    play = Playbook(EXCLUSIVE, make(Scheduling(preemption=wanted))).forecast("kind", a_forecast())
    play.happen(a_report(a_device("gpu0"), a_device("gpu1")))
    for number, priority in ((1, 0), (2, second)):
        play.happen(Submitted(a_job(number, preemptible=preemptible, priority=priority))).settle()
        play.happen(a_start(number, at=play.now), after=60.0)
    return play


def stopped(play: Playbook) -> list[int]:
    return [int(a.attempt.job) for a in play.done if isinstance(a, Stop) and a.reason is StopReason.PREEMPTED]


def test_attempt_with_least_work_is_stopped_and_its_device_reserved() -> None:
    play = two_run().happen(Submitted(a_job(3, priority=5))).settle()
    assert stopped(play) == [2], "it has run a minute less"

    play.happen(Submitted(a_job(4, priority=1)), an_exit(2, Ending.STOPPED)).settle()

    assert play.launched()[3] == "gpu1"
    assert 4 not in play.launched()


def test_the_least_urgent_is_stopped_whatever_it_has_done() -> None:
    play = two_run(second=9).happen(Submitted(a_job(3, priority=10))).settle()
    assert stopped(play) == [1], "though job 2 has run a minute less"


def test_devices_freed_one_by_one_for_a_gang_go_to_no_other_job() -> None:
    play = two_run().happen(Submitted(a_job(3, priority=5, device_count=2))).settle()
    assert sorted(stopped(play)) == [1, 2]

    play.happen(an_exit(1, Ending.STOPPED), Submitted(a_job(4, priority=6)), after=5.0).settle()
    assert 4 not in play.launched(), "half of the gang's room is free, and kept"

    play.happen(an_exit(2, Ending.STOPPED)).settle()
    assert 3 in play.launched()


def test_equal_or_aged_priority_stops_no_attempt() -> None:
    play = two_run().happen(Submitted(a_job(3)), Submitted(a_job(4, priority=0)), after=10 * 86_400.0).settle()

    assert stopped(play) == []


@pytest.mark.parametrize("raised", [3, 4])
def test_devices_kept_for_the_job_or_for_one_like_it_are_freed_for_it(raised: int) -> None:
    play = two_run().happen(Submitted(a_job(3, device_count=2)), Submitted(a_job(4, device_count=2)))
    play.happen(after=20_000.0).settle()
    assert list(play.state.reservations) == [3]
    assert stopped(play) == []

    play.happen(JobEdited(JobId(raised), JobEdit(priority=5), "ada")).settle()
    assert sorted(stopped(play)) == [1, 2]
    play.happen(an_exit(1, Ending.STOPPED), an_exit(2, Ending.STOPPED)).settle()
    assert raised in play.launched()
    assert 7 - raised not in play.launched()


def test_a_device_kept_for_another_class_of_jobs_is_not_freed() -> None:
    play = two_run().happen(Submitted(a_job(3, device_count=2))).settle().happen(after=20_000.0).settle()
    assert JobId(3) in play.state.reservations
    assert stopped(play.happen(Submitted(a_job(4, priority=5))).settle()) == []


@pytest.mark.parametrize("days", [1 / 12, 4])
def test_a_job_that_was_started_for_its_waiting_is_not_stopped_by_those_it_came_before(days: float) -> None:
    """After two hours a device is reserved for job 2; after four days its age alone puts it before jobs of priority 3."""
    limits = replace(EXCLUSIVE, patience_s=3600.0 if days < 1 else float("inf"))
    play = (
        Playbook(limits, make(Scheduling(preemption=True))).forecast("kind", a_forecast()).happen(a_report(a_device()))
    )
    play.happen(Submitted(a_job(1, priority=3, submitted_at=play.now))).settle()
    play.happen(a_start(1), Submitted(a_job(2, preemptible=True, submitted_at=play.now))).settle()
    play.happen(after=days * 86_400.0).settle()
    play.happen(Submitted(a_job(3, priority=3, submitted_at=play.now)), after=1.0).settle()

    play.happen(an_exit(1)).settle()
    assert list(play.launched()) == [1, 2]
    play.happen(a_start(2), Submitted(a_job(4, priority=3, submitted_at=play.now)), after=60.0).settle()
    assert stopped(play) == []
    play.happen(Submitted(a_job(5, priority=6, submitted_at=play.now)), after=60.0).settle()
    assert stopped(play) == [2], "one that it did not come before"


def test_no_stop_without_preemptible_job_or_without_the_setting() -> None:
    for play in (two_run(preemptible=False), two_run(wanted=False)):
        assert stopped(play.happen(Submitted(a_job(3, priority=5))).settle()) == []


def test_no_stop_for_a_job_that_could_still_not_start() -> None:
    """A foreign process holds the memory that it would need."""
    play = two_run()
    taken = {name: a_reading(used_memory=20 * GIB, foreign_memory=16 * GIB) for name in ("gpu0", "gpu1")}
    play.happen(a_report(a_device("gpu0"), a_device("gpu1"), readings=taken))

    assert stopped(play.happen(Submitted(a_job(3, priority=5, declared_memory=12 * GIB))).settle()) == []
    assert stopped(play.happen(Submitted(a_job(4, priority=5, device_count=3))).settle()) == []


def test_freed_devices_are_released_when_the_job_is_cancelled() -> None:
    play = two_run().happen(Submitted(a_job(3, priority=5))).settle()
    play.happen(an_exit(2, Ending.STOPPED), CancelRequested(JobId(3), "ada"))

    assert play.settle().launched()[2] == "gpu1"


def test_stopped_job_does_not_stop_its_preemptor() -> None:
    play = two_run().happen(Submitted(a_job(3, priority=5))).settle()
    play.happen(an_exit(2, Ending.STOPPED)).settle()
    play.happen(a_start(3, at=play.now)).settle()

    assert stopped(play) == [2]
    assert play.reason(2) is not None


def ann_is_limited(*changes: Event, **of: object) -> Playbook:
    """Four preemptible jobs run, and ann has four jobs of a higher priority, 11 to 14, of which one may run at a time."""
    play = Playbook(EXCLUSIVE, make(Scheduling(preemption=True))).happen(
        a_report(*(a_device(f"gpu{number}") for number in range(4))), *changes
    )
    for number in range(1, 5):
        play.happen(Submitted(a_job(number, preemptible=True))).settle().happen(a_start(number, at=play.now))
    jobs = (a_job(number, kind=f"kind{number}", owner="ann", priority=5, **of) for number in range(11, 15))
    return play.happen(*map(Submitted, jobs)).settle()


ANN = Account(QuotaScope.USER, "ann")


@pytest.mark.parametrize(
    "play",
    [
        ann_is_limited(QuotaSet(Quota(ANN, running_devices=1), "root")),
        ann_is_limited(array=JobId(11), most_at_once=1),
    ],
    ids=["quota", "array"],
)
def test_no_more_jobs_are_stopped_than_a_quota_or_an_array_has_room_for(play: Playbook) -> None:
    assert len(stopped(play)) == 1
    victim = stopped(play)[0]
    play.happen(an_exit(victim, Ending.STOPPED)).settle()
    assert [job for job in play.launched() if job > 10] == [11]

    play.happen(a_start(11, at=play.now), an_exit(11)).settle()
    assert [job for job in play.launched() if job > 10] == [11, 12], "and the next begins where the first has ended"


def test_jobs_kept_back_by_a_quota_stop_others_once_it_is_raised_as_after_a_restart() -> None:
    play = ann_is_limited(QuotaSet(Quota(ANN, running_devices=1), "root"))
    (victim,) = stopped(play)
    play.happen(QuotaSet(Quota(ANN, running_devices=0), "root"), an_exit(victim, Ending.STOPPED)).settle()
    assert not [job for job in play.launched() if job > 10], "the device was freed in vain"
    play.happen(a_start(victim, 2, at=play.now)).done.clear()

    play.happen(QuotaRemoved(ANN, "root")).settle()
    assert len(stopped(play)) == 4


def test_preemption_is_off_by_default() -> None:
    assert preemption.for_priority(Scheduling()) is preemption.no_preemption
