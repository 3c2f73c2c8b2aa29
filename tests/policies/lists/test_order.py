"""Queue orders, read off the starts on one device that runs one job at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.events import Submitted
from gpuq.core.state.job import Job
from gpuq.policies.lists import order
from gpuq.policies.lists.list_scheduler import list_scheduler
from gpuq.policies.lists.order import QueueOrder
from tests.support.nouns import a_device, a_forecast, a_job, a_report, a_start, an_exit
from tests.support.playbook import Playbook

EXCLUSIVE = Limits(residents_per_device=1, patience_s=float("inf"), stale_after_s=float("inf"))


def playing(first: QueueOrder, *jobs: Job, at: float = 100.0, **durations: float | None) -> Playbook:
    play = Playbook(EXCLUSIVE, list_scheduler(first))
    for signature, seconds in durations.items():
        play.forecast(signature, a_forecast(duration_p50_s=seconds, duration_p90_s=seconds))
    play.now = at
    return play.happen(a_report(a_device()), *(Submitted(job) for job in jobs))


def started(play: Playbook) -> list[int]:
    """One after the other, each for an hour."""
    while play.settle().state.attempts:
        (attempt,) = play.state.attempts
        play.happen(a_start(attempt.job, at=play.now)).happen(an_exit(attempt.job), after=3600.0)
    return list(play.launched())


def test_arrival_orders_by_submission_not_by_id() -> None:
    play = playing(order.ARRIVAL, a_job(1, submitted_at=3.0), a_job(2, submitted_at=1.0), a_job(3, submitted_at=2.0))

    assert started(play) == [2, 3, 1]


def test_shortest_orders_by_device_time() -> None:
    jobs = (a_job(1, kind="long"), a_job(2, kind="short"), a_job(3, kind="middle"))

    assert started(playing(order.shortest(20), *jobs, long=900, short=30, middle=300)) == [2, 3, 1]


def test_shortest_bounds_overtaking_by_the_jobs_own_size() -> None:
    """900 s may be overtaken by 30 s that come within 2 * 870 s, and by none that come later."""
    jobs = [a_job(1, kind="long", submitted_at=0.0)]
    jobs += [a_job(n, kind="short", submitted_at=at) for n, at in ((2, 1700.0), (3, 1760.0))]

    assert started(playing(order.shortest(2), *jobs, at=2000.0, long=900, short=30)) == [2, 1, 3]


def test_longest_orders_by_device_time_the_other_way_with_the_same_bound() -> None:
    jobs = [a_job(1, kind="short", submitted_at=0.0)]
    jobs += [a_job(n, kind="long", submitted_at=at) for n, at in ((2, 1700.0), (3, 1760.0))]

    assert started(playing(order.longest(2), *jobs, at=2000.0, long=900, short=30)) == [2, 1, 3]


def test_shortest_without_forecasts_is_first_come() -> None:
    assert started(playing(order.shortest(20), *(a_job(n, kind=f"k{n}") for n in (3, 1, 2)))) == [1, 2, 3]


def test_shortest_counts_an_unknown_job_as_the_median() -> None:
    jobs = (a_job(1, kind="long"), a_job(2, kind="new"), a_job(3, kind="short"), a_job(4, kind="long"))

    assert started(playing(order.shortest(20), *jobs, long=900, short=30, new=None)) == [3, 1, 2, 4]


def test_deadline_counts_no_deadline_as_a_day_away() -> None:
    jobs = (
        a_job(1, submitted_at=0.0),
        a_job(2, submitted_at=0.0, deadline_at=90_000.0),
        a_job(3, submitted_at=0.0, deadline_at=500.0),
    )

    assert started(playing(order.deadline(86_400.0), *jobs)) == [3, 1, 2]


def test_fair_share_starts_the_owner_with_least_use() -> None:
    play = playing(order.FAIR_SHARE, a_job(1, owner="ada")).settle()
    play.happen(a_start(1, at=play.now))
    play.happen(an_exit(1), Submitted(a_job(2, owner="ada")), Submitted(a_job(3, owner="bob")), after=600.0)

    assert started(play) == [1, 3, 2]


@pytest.mark.parametrize(("waited", "first"), [(3 * 3600.0 - 1, 2), (3 * 3600.0 + 1, 1)])
def test_waiting_raises_priority_up_to_the_highest_in_the_queue(waited: float, first: int) -> None:
    low, high = a_job(1, submitted_at=0.0), a_job(2, submitted_at=waited, priority=3)

    assert started(playing(order.priority_first(order.ARRIVAL, 3600.0), low, high, at=waited))[0] == first


def began_to_wait(at: float, number: int, **changes: Any) -> Job:
    """A job that was submitted at the very first and waited for another one, or for a moment, until then."""
    return a_job(number, submitted_at=0.0, eligible_at=at, **changes)


ORDERS = {
    "arrival": order.ARRIVAL,
    "fair-share": order.FAIR_SHARE,
    "shortest": order.shortest(1),
    "deadline": order.deadline(60.0),
    "priority": order.priority_first(order.ARRIVAL, 3600.0),
}


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("kind", ["kind", "other"])
def test_a_job_takes_its_place_from_when_it_could_first_have_started(name: str, kind: str) -> None:
    jobs = (began_to_wait(90.0, 1), a_job(2, kind=kind, submitted_at=80.0), began_to_wait(70.0, 3))
    assert started(playing(ORDERS[name], *jobs)) == [3, 2, 1]


def test_the_time_before_a_job_may_begin_raises_no_priority() -> None:
    days = 5 * 86_400.0
    jobs = (began_to_wait(days, 1), a_job(2, priority=4, submitted_at=days - 60.0))
    assert started(playing(order.priority_first(order.ARRIVAL, 86_400.0), *jobs, at=days)) == [2, 1]


def test_age_does_not_change_the_order_among_equal_priorities() -> None:
    jobs = (a_job(1, kind="long", submitted_at=0.0), a_job(2, kind="short", submitted_at=5000.0))
    first = order.priority_first(order.shortest(20), 60.0)

    assert started(playing(first, *jobs, at=5000.0, long=9000, short=30)) == [2, 1]


@given(st.lists(st.tuples(st.floats(0, 1000), st.sampled_from(["a", "b", "c"])), min_size=2, max_size=8))
def test_no_job_is_overtaken_by_one_submitted_after_its_bound(arrivals: list[tuple[float, str]]) -> None:
    durations = {"a": 10.0, "b": 100.0, "c": 1000.0}
    jobs = [a_job(number, kind=kind, submitted_at=at) for number, (at, kind) in enumerate(arrivals, 1)]
    ranked = started(playing(order.shortest(3), *jobs, at=1000.0, a=10.0, b=100.0, c=1000.0))
    by_id = {int(job.id): job for job in jobs}

    for snapshot, overtaken in enumerate(ranked):
        for earlier in ranked[:snapshot]:
            bound = by_id[overtaken].submitted_at + 3 * durations[by_id[overtaken].kind]
            assert by_id[earlier].submitted_at <= bound


# --- floods ----------------------------------------------------------------------------------------------------------


def flood(*, owner: str = "eve", first: int = 1, count: int = 12, **more: Any) -> list[Job]:
    return [a_job(number, owner=owner, submitted_at=0.0, **more) for number in range(first, first + count)]


def first_starts(first: QueueOrder, *jobs: Job, count: int = 2) -> list[int]:
    return started(playing(first, *jobs, kind=30.0, long=3000.0))[:count]


def test_a_flood_comes_after_the_jobs_of_others_whatever_its_priority() -> None:
    default = order.floods_last(order.priority_first(order.shortest(100), 86_400.0))
    jobs = [*flood(priority=9), a_job(50, owner="bob", submitted_at=90.0)]
    assert first_starts(default, *jobs) == [50, 1]


def test_a_user_with_about_as_many_jobs_as_the_others_is_no_flood() -> None:
    jobs = [*flood(count=2), a_job(50, owner="bob", submitted_at=90.0)]
    assert first_starts(order.floods_last(order.ARRIVAL), *jobs) == [1, 2]


def test_a_single_large_job_is_no_flood() -> None:
    jobs = [a_job(1, kind="long", submitted_at=0.0), a_job(50, owner="bob", submitted_at=90.0)]
    assert first_starts(order.floods_last(order.ARRIVAL), *jobs) == [1, 50]


def test_two_floods_share_a_place_behind_the_others() -> None:
    jobs = [*flood(), *flood(owner="mallory", first=20), a_job(50, owner="bob", submitted_at=90.0)]
    play = playing(order.floods_last(order.ARRIVAL), *jobs, kind=30.0)
    assert order.tiers_of_owners(play.context())[0] == {"bob": 0, "eve": 1, "mallory": 1}


def test_floods_are_counted_by_jobs_while_no_duration_is_known() -> None:
    play = playing(order.ARRIVAL, *flood(), a_job(50, owner="bob"))
    assert order.tiers_of_owners(play.context())[0] == {"bob": 0, "eve": 1}


def test_nothing_is_reserved_for_a_flood_while_another_user_waits() -> None:
    """Otherwise the longest waiting job of a flood would always have the next device. Its twelve hours of work on one device may
    take eighteen."""
    limits = replace(EXCLUSIVE, patience_s=60.0)
    play = Playbook(limits, list_scheduler(order.floods_last(order.ARRIVAL))).happen(a_report(a_device()))
    play.happen(*(Submitted(job) for job in flood())).settle().happen(a_start(1), after=1000.0).settle()
    assert play.state.reservations, "with one user alone, one is reserved"
    play.happen(Submitted(a_job(50, owner="bob", submitted_at=play.now))).settle()
    assert not play.state.reservations
    play.happen(an_exit(1)).settle()
    assert list(play.launched()) == [1, 50]

    play.happen(a_start(50), after=18 * 3600.0)
    play.happen(Submitted(a_job(51, owner="bob", submitted_at=play.now))).settle()
    play.happen(an_exit(50)).settle()
    assert list(play.launched()) == [1, 50, 2], "by now the flood has waited long enough for one device"


@settings(max_examples=20)
@given(st.lists(st.sampled_from(["kind", "long"]), min_size=2, max_size=8))
def test_with_one_user_nothing_changes(kinds: list[str]) -> None:
    jobs = [a_job(number, kind=kind) for number, kind in enumerate(kinds, 1)]
    orders = (order.shortest(1), order.floods_last(order.shortest(1)))
    assert len({tuple(first_starts(one, *jobs, count=99)) for one in orders}) == 1
