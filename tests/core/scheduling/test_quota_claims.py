"""What is left of a quota is kept for a job on several devices, so that those on one do not use it up for ever before it."""

from __future__ import annotations

from typing import Any

import pytest

from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.events import QuotaSet, Submitted
from gpuq.core.state.quota import HOUR_S, Account, Quota, QuotaScope
from tests.support.nouns import GIB, a_device, a_forecast, a_job, a_report, a_start, an_exit
from tests.support.playbook import Playbook

ADA = Account(QuotaScope.USER, "ada")
LIMITS = Limits(residents_per_device=1, patience_s=600, patience_ratio=0, stale_after_s=1e9)
VISION = Account(QuotaScope.PROJECT, "vision")


def singles_run(account: Account = ADA, **of: Any) -> Playbook:
    """On eight devices, one job on one device after the other uses up a quota of four devices: jobs 1 to 4 run, 5 to 8 wait."""
    play = Playbook(LIMITS).happen(a_report(*(a_device(f"gpu{number}") for number in range(8))))
    for kind, hours in (("month", 720), ("hour", 1)):
        play.forecast(kind, a_forecast(90, 1, duration_p50_s=hours * HOUR_S, duration_p90_s=hours * HOUR_S))
    play.happen(QuotaSet(Quota(account, running_devices=4), "root"))
    jobs = (a_job(number, kind="hour", submitted_at=play.now + number, **of) for number in range(1, 9))
    play.happen(*map(Submitted, jobs), after=10.0).settle()
    return play.happen(*(a_start(number, at=play.now) for number in range(1, 5)))


def kept_for(play: Playbook, job: int) -> object:
    verdict = play.verdict(job)
    assert verdict is not None
    return dict(verdict.numbers).get("kept_for")


def end(play: Playbook, *jobs: int) -> list[int]:
    """The jobs that have started once these have ended, a minute apart."""
    for job in jobs:
        play.happen(an_exit(job), after=60.0).settle()
    return sorted(play.launched())


@pytest.mark.parametrize("account", [ADA, VISION])
def test_once_a_job_on_several_devices_is_overdue_those_on_one_use_up_its_quota_no_more(account: Account) -> None:
    play = singles_run(account, project="vision")
    play.happen(Submitted(a_job(9, kind="hour", device_count=3, project="vision", submitted_at=play.now))).settle()
    assert end(play, 1) == [1, 2, 3, 4, 5], "it is not overdue yet"

    play.happen(a_start(5, at=play.now), after=700.0)
    assert end(play, 2, 3) == [1, 2, 3, 4, 5]
    assert kept_for(play, 6) == "9"
    assert end(play, 4) == [1, 2, 3, 4, 5, 9]
    assert end(play, 5) == [1, 2, 3, 4, 5, 6, 9]


def test_what_is_left_of_a_quota_is_kept_from_jobs_of_lower_priority_at_once() -> None:
    play = singles_run().happen(Submitted(a_job(9, kind="hour", device_count=2, priority=1))).settle()
    assert end(play, 1) == [1, 2, 3, 4]
    assert end(play, 2) == [1, 2, 3, 4, 9]
    play.happen(Submitted(a_job(10, kind="hour", device_count=2, priority=1)))
    play.happen(Submitted(a_job(11, kind="hour", priority=2))).settle()
    assert end(play, 3) == [1, 2, 3, 4, 9, 11], "a higher priority comes first"


def test_a_job_that_ends_before_the_quota_has_enough_for_that_on_several_may_start() -> None:
    """Job 1 keeps one device of the project for a month, so nothing is gained by leaving the other three idle."""
    play = singles_run(VISION, project="vision")
    assert end(play, 1, 2, 3, 4, 5, 6, 7) == list(range(1, 9))
    play.happen(a_start(8), Submitted(a_job(10, kind="month", owner="dan", project="vision"))).settle()
    play.happen(a_start(10, at=play.now), an_exit(8)).settle()
    gang = a_job(11, kind="hour", owner="dan", project="vision", device_count=4, submitted_at=play.now)
    play.happen(Submitted(gang)).happen(after=700.0)
    play.happen(*(Submitted(a_job(number, kind="hour", project="vision")) for number in range(12, 16))).settle()
    assert sorted(play.launched())[-3:] == [12, 13, 14]


def test_a_job_that_ends_before_the_devices_of_that_on_several_are_free_may_start() -> None:
    """Another user has the only host that is large enough for a month."""
    play = Playbook(LIMITS).happen(a_report(*(a_device(f"a{number}", host="a") for number in range(4)), host="a"))
    play.happen(a_report(a_device("b", host="b"), host="b"), QuotaSet(Quota(ADA, running_devices=4), "root"))
    for kind, hours in (("month", 720), ("hour", 1)):
        play.forecast(kind, a_forecast(90, 1, duration_p50_s=hours * HOUR_S, duration_p90_s=hours * HOUR_S))
    play.happen(Submitted(a_job(1, kind="month", owner="bob", device_count=4))).settle().happen(a_start(1))
    play.happen(Submitted(a_job(2, kind="hour", device_count=4, submitted_at=play.now))).settle()
    play.happen(Submitted(a_job(3, kind="hour")), Submitted(a_job(4, kind="month")), after=700.0).settle()
    assert play.launched() == {1: "a0", 3: "b"}
    assert kept_for(play, 4) == "2", "it would run for as long as the job of the other user"


def test_nothing_is_kept_for_a_job_that_something_else_keeps_from_starting() -> None:
    used_up = Quota(Account(QuotaScope.PROJECT, "speech"), device_hours=0)
    play = singles_run().happen(QuotaSet(Quota(VISION, running_devices=2), "root"), QuotaSet(used_up, "root"))
    play.happen(Submitted(a_job(12, kind="hour", device_count=3, priority=9, project="speech")))
    play.happen(Submitted(a_job(9, kind="hour", device_count=3, priority=9, project="vision")))
    play.happen(Submitted(a_job(10, kind="hour", device_count=4, priority=9, declared_memory=100 * GIB)))
    play.happen(Submitted(a_job(11, kind="hour", device_count=5, priority=9)), after=700.0).settle()
    assert end(play, 1, 2) == [1, 2, 3, 4, 5, 6]


def test_two_jobs_that_a_quota_is_kept_for_do_not_wait_for_each_other() -> None:
    """Job 9 is overdue, and job 10 has the higher priority."""
    play = singles_run()
    play.happen(Submitted(a_job(9, kind="hour", device_count=3, submitted_at=play.now))).settle().happen(after=700.0)
    play.happen(Submitted(a_job(10, kind="hour", device_count=4, priority=5, submitted_at=play.now))).settle()
    assert end(play, 1, 2, 3) == [1, 2, 3, 4, 9]
