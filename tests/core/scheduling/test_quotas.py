"""Who has used up a quota waits with a reason that says so, and the others pass."""

from __future__ import annotations

from typing import Any

from gpuq.core.scheduling.policy import Proposal
from gpuq.core.state.actions import SetPendingReason
from gpuq.core.state.events import QuotaRemoved, QuotaSet, Submitted
from gpuq.core.state.quota import EVERYONE, HOUR_S, Account, Quota, QuotaScope
from gpuq.core.state.verdict import Rule
from tests.support.nouns import a_device, a_job, a_report, a_start, an_exit
from tests.support.playbook import Playbook

ADA = Account(QuotaScope.USER, "ada")
DEVICES = tuple(a_device(f"gpu{number}") for number in range(4))


def playbook(*devices: Any) -> Playbook:
    return Playbook().happen(a_report(*(devices or DEVICES)))


def numbers(play: Playbook, job: int) -> dict[str, Any]:
    verdict = play.verdict(job)
    assert verdict is not None
    return dict(verdict.numbers)


def test_jobs_beyond_the_quota_of_devices_wait_and_jobs_of_others_pass_them() -> None:
    play = playbook().happen(QuotaSet(Quota(ADA, running_devices=2), "root"))
    play.happen(*(Submitted(a_job(number)) for number in range(1, 5)), Submitted(a_job(5, owner="bob"))).settle()

    assert sorted(play.launched()) == [1, 2, 5]
    assert play.reason(3) is play.reason(4) is Rule.DEVICE_QUOTA
    assert numbers(play, 3) == {"user": "ada", "limit_devices": 2, "used_devices": 2, "wanted_devices": 1}

    play.happen(a_start(1), an_exit(1)).settle()
    assert sorted(play.launched()) == [1, 2, 3, 5]


def test_a_gang_counts_all_its_devices() -> None:
    play = playbook().happen(QuotaSet(Quota(ADA, running_devices=3), "root"))
    play.happen(Submitted(a_job(1, device_count=2)), Submitted(a_job(2, device_count=2)), Submitted(a_job(3))).settle()
    assert sorted(play.launched()) == [1, 3]
    assert play.reason(2) is Rule.DEVICE_QUOTA


def test_no_devices_are_reserved_for_a_job_over_its_quota() -> None:
    play = playbook(*DEVICES[:1]).happen(QuotaSet(Quota(ADA, running_devices=1), "root"))
    play.happen(Submitted(a_job(1)), Submitted(a_job(2))).settle()
    play.happen(a_start(1), after=100_000.0).happen(a_report(DEVICES[0])).settle()
    assert not play.state.reservations
    assert play.reason(2) is Rule.DEVICE_QUOTA


def test_used_up_device_hours_keep_jobs_waiting_until_the_use_has_left_the_window() -> None:
    play = playbook(*DEVICES[:1]).happen(QuotaSet(Quota(ADA, device_hours=1, window_s=24 * HOUR_S), "root"))
    play.happen(Submitted(a_job(1))).settle().happen(a_start(1, at=play.now))
    play.happen(an_exit(1), Submitted(a_job(2)), a_report(DEVICES[0]), after=2 * HOUR_S).settle()

    assert play.reason(2) is Rule.DEVICE_HOURS_QUOTA
    found = numbers(play, 2)
    # 100 s to 7,300 s: without its first hour it is just above the limit.
    assert (found["used_device_hours"], found["limit_device_hours"]) == (2.0, 1)
    assert found["free_at"] == 26 * HOUR_S
    play.happen(a_report(DEVICES[0]), after=26 * HOUR_S - play.now).settle()
    assert list(play.launched()) == [1, 2]


def test_a_reason_that_named_a_moment_is_renewed_when_the_moment_has_passed_in_vain() -> None:
    play = playbook(*DEVICES[:2]).happen(QuotaSet(Quota(ADA, device_hours=1.5, window_s=2 * HOUR_S), "root"))
    play.happen(Submitted(a_job(1)), Submitted(a_job(2))).settle().happen(
        a_start(1, at=play.now), a_start(2, at=play.now)
    )
    play.happen(an_exit(1), Submitted(a_job(3)), a_report(*DEVICES[:2]), after=HOUR_S).settle()
    first = numbers(play, 3)["free_at"]
    play.happen(a_report(*DEVICES[:2]), after=first - play.now + 1).settle()
    assert play.reason(3) is Rule.DEVICE_HOURS_QUOTA, "job 2 went on meanwhile"
    assert numbers(play, 3)["free_at"] is None


def test_a_project_has_a_quota_across_its_users() -> None:
    vision = Account(QuotaScope.PROJECT, "vision")
    play = playbook().happen(QuotaSet(Quota(vision, running_devices=1), "root"))
    play.happen(
        Submitted(a_job(1, project="vision")), Submitted(a_job(2, owner="bob", project="vision")), Submitted(a_job(3))
    ).settle()
    assert sorted(play.launched()) == [1, 3]
    assert numbers(play, 2)["project"] == "vision"


def test_a_quota_that_is_changed_or_removed_takes_effect_in_the_next_pass() -> None:
    everyone = Account(QuotaScope.USER, EVERYONE)
    play = playbook().happen(QuotaSet(Quota(everyone, running_devices=0), "root"))
    play.happen(Submitted(a_job(1)), Submitted(a_job(2)), Submitted(a_job(3))).settle()
    assert not play.launched()
    play.happen(QuotaSet(Quota(everyone, running_devices=1), "root")).settle()
    assert list(play.launched()) == [1]
    assert numbers(play, 2)["limit_devices"] == 1
    play.happen(QuotaRemoved(everyone, "root")).settle()
    assert list(play.launched()) == [1, 2, 3]


def test_many_jobs_over_a_quota_get_their_reason_in_one_action_and_keep_it() -> None:
    play = playbook().happen(QuotaSet(Quota(ADA, running_devices=1), "root"))
    play.happen(*(Submitted(a_job(number)) for number in range(1, 20))).settle()
    play.happen(a_start(1), an_exit(1)).settle().happen(a_start(2), an_exit(2)).settle()
    assert list(play.launched()) == [1, 2, 3]
    assert [action.jobs for action in play.done if isinstance(action, SetPendingReason)] == [tuple(range(2, 20))]


def test_no_more_tasks_of_an_array_run_than_may_at_once_and_other_jobs_pass_them() -> None:
    tasks = [Submitted(a_job(number, array=1, most_at_once=2)) for number in range(1, 5)]
    play = playbook().happen(*tasks, Submitted(a_job(5))).settle()

    assert sorted(play.launched()) == [1, 2, 5]
    assert play.reason(3) is play.reason(4) is Rule.ARRAY_LIMIT
    assert numbers(play, 3) == {"array": 1, "limit_tasks": 2, "running_tasks": 2}

    play.happen(a_start(2), an_exit(2)).settle()
    assert sorted(play.launched()) == [1, 2, 3, 5]
    reasons = [action for action in play.done if isinstance(action, SetPendingReason)]
    assert sum(4 in action.jobs for action in reasons) == 1, "nothing changed for task 4"


def test_each_array_has_a_limit_of_its_own_and_one_without_has_none() -> None:
    limited = [Submitted(a_job(number, array=number % 2 or 2, most_at_once=1)) for number in range(1, 5)]
    play = playbook().happen(*limited, Submitted(a_job(5, array=5)), Submitted(a_job(6, array=5))).settle()
    assert sorted(play.launched()) == [1, 2, 5, 6]


def test_each_device_of_a_running_job_counts_for_the_whole_window() -> None:
    play = playbook().happen(QuotaSet(Quota(ADA, device_hours=1.5, window_s=HOUR_S), "root"))
    play.happen(Submitted(a_job(1, device_count=2))).settle().happen(a_start(1))
    play.happen(Submitted(a_job(2)), after=2 * HOUR_S).happen(a_report(*DEVICES)).settle()

    assert play.reason(2) is Rule.DEVICE_HOURS_QUOTA
    assert numbers(play, 2)["used_device_hours"] == 2


def test_no_policy_starts_a_job_beyond_its_quota() -> None:
    """Nor on more devices than its quota has left, where it could run on fewer."""
    play = playbook().happen(QuotaSet(Quota(ADA, running_devices=2), "root"))
    play.policy = lambda context: (Proposal(job, DEVICES[: job.counts[-1]]) for job in context.waiting)
    play.happen(Submitted(a_job(1, most_devices=3)), Submitted(a_job(2, device_count=2))).settle()
    assert list(play.launched()) == [2]
