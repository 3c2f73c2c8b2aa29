"""Device-time is counted by the hour, and leaves a window an hour at a time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpuq.core.state.quota import (
    EVERYONE,
    HOUR_S,
    LONGEST_WINDOW_S,
    Account,
    Hours,
    Quota,
    QuotaScope,
    accounts,
    add_served,
    falls_below,
    flat,
    from_flat,
    quota_of,
    served_within,
)

ADA = Account(QuotaScope.USER, "ada")
VISION = Account(QuotaScope.PROJECT, "vision")


def served(*attempts: tuple[float, float, int]) -> Hours:
    hours: Hours = {}
    for began, ended, devices in attempts:
        add_served(hours, began, ended, devices)
    return hours


def test_an_attempt_is_spread_over_the_hours_that_it_ran_in() -> None:
    assert served((1800.0, 9000.0, 2)) == {0: 3600.0, 1: 7200.0, 2: 3600.0}


def test_what_began_before_the_window_counts_from_its_hour_on() -> None:
    hours = served((0.0, 3 * HOUR_S, 1))
    assert served_within(hours, 2 * HOUR_S, now=3 * HOUR_S) == 2 * HOUR_S
    assert served_within(hours, 2 * HOUR_S, now=5 * HOUR_S) == 0.0


def test_use_falls_below_a_limit_when_enough_old_hours_have_left() -> None:
    hours = served((0.0, 3 * HOUR_S, 1))
    assert falls_below(hours, 0.0, limit_s=1.5 * HOUR_S, window_s=24 * HOUR_S, now=4 * HOUR_S) == 26 * HOUR_S


def test_what_runs_now_does_not_leave_the_window() -> None:
    hours = served((0.0, HOUR_S, 1))
    assert falls_below(hours, 2 * HOUR_S, limit_s=HOUR_S, window_s=24 * HOUR_S, now=2 * HOUR_S) is None


def test_hours_beyond_any_window_are_dropped() -> None:
    hours = served((0.0, HOUR_S, 1), (LONGEST_WINDOW_S + 10 * HOUR_S, LONGEST_WINDOW_S + 11 * HOUR_S, 1))
    assert len(hours) == 1


def test_an_attempt_is_added_without_a_look_at_all_hours_of_the_longest_window() -> None:
    """A takeover adds all attempts of three months."""

    class Counted(dict[int, float]):
        looks = 0

        def __iter__(self) -> Iterator[int]:
            for hour in super().__iter__():
                self.looks += 1
                yield hour

    hours = Counted(dict.fromkeys(range(2000), 1.0))
    add_served(hours, 2000 * HOUR_S, 2002 * HOUR_S, 1)
    assert (len(hours), hours[2001]) == (2002, HOUR_S)
    assert hours.looks < 10


def test_served_hours_survive_as_rows() -> None:
    hours = {ADA: served((0.0, 5000.0, 1)), VISION: served((0.0, 10.0, 3))}
    assert from_flat(flat(hours)) == hours


def test_a_job_counts_for_its_user_and_its_project() -> None:
    assert accounts("ada", "vision") == (ADA, VISION)
    assert accounts("ada", None) == (ADA,)


@pytest.mark.parametrize(("own", "limit"), [(True, 4), (False, 2)])
def test_the_quota_of_everyone_holds_for_those_without_one_of_their_own(own: bool, limit: int) -> None:
    everyone = Quota(Account(QuotaScope.USER, EVERYONE), running_devices=2)
    quotas = {everyone.account: everyone, **({ADA: Quota(ADA, running_devices=4)} if own else {})}
    found = quota_of(ADA, quotas)
    assert found is not None
    assert found.running_devices == limit
    assert quota_of(VISION, quotas) is None
