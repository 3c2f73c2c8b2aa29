"""How many pilots a pool requests, and which it takes back."""

from dataclasses import replace
from math import inf

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuq.policies.pilots import Allocation, Demand, Horizon, PoolLimits, Requests, horizon, plan

HOUR = 3600.0
LIMITS = PoolLimits(devices=2, most=4, time_s=HOUR, charged_s=HOUR)
UNKNOWN, HALF, GANG = Demand(), Demand(utilization_pct=40.0), Demand(4)
SHORT = Demand(lasts_s=60.0, longest_s=60.0)


def coming(number: int, devices: int = 2) -> Allocation:
    return Allocation(number, ((),) * devices, HOUR, started=False)


def joined(number: int, *free_in_s: float, left_s: float = HOUR) -> Allocation:
    return Allocation(number, tuple(map(busy, free_in_s)), left_s, started=True)


def busy(free_in_s: float) -> tuple[Demand, ...]:
    """The residents of a device that is free after so long."""
    return (Demand(lasts_s=None if free_in_s == inf else free_in_s),) if free_in_s else ()


def requested(
    waiting: list[Demand], pilots: tuple[Allocation, ...] = (), horizon_s: float = 0, **changes: object
) -> Requests:
    return plan(replace(LIMITS, **changes), waiting, pilots, Horizon(horizon_s))  # type: ignore[arg-type]


def test_no_job_waits_so_nothing_is_requested() -> None:
    assert requested([]) == Requests()


def test_jobs_of_which_nothing_is_known_get_a_device_each_and_the_last_pilot_has_no_more_than_are_needed() -> None:
    assert requested([UNKNOWN] * 3).request == (2, 1)


def test_jobs_that_share_are_packed_onto_one_device() -> None:
    assert requested([HALF] * 4).request == (2,)
    assert requested([HALF] * 2).request == (1,)
    light = [Demand(utilization_pct=5.0)] * 8
    assert [requested(light, residents=most).request for most in (1, 2, 4, 8)] == [(2, 2, 2, 2), (2, 2), (2,), (1,)]
    assert requested([Demand(utilization_pct=60.0)] * 3).request == (2, 1), "no two of them fit on one device"


def test_idle_devices_and_pilots_on_their_way_are_used_first() -> None:
    there = joined(1, 0, 0), coming(2)
    assert requested([UNKNOWN] * 4, there) == Requests(wanted=frozenset({1, 2}))
    assert requested([UNKNOWN] * 6, there).request == (2,)


def test_a_pool_has_no_more_pilots_than_it_may_have() -> None:
    assert requested([UNKNOWN] * 20, (joined(1, inf),), most=2).request == (2,)
    assert len(requested([UNKNOWN] * 20, (), most=2).left) == 16, "for another pool"


def test_pilots_that_are_not_needed_any_more_are_taken_back_the_newest_first() -> None:
    assert requested([UNKNOWN], (coming(3), coming(1), coming(2))).cancel == (2, 3)


def test_a_job_that_no_pilot_can_run_requests_none() -> None:
    longer = Demand(longest_s=HOUR + 1)
    assert requested([GANG, longer]) == Requests(left=(GANG, longer))


def test_a_job_that_would_outlast_a_pilot_does_not_count_on_its_devices() -> None:
    there = joined(1, 0, 0, left_s=600)
    decided = requested([Demand(longest_s=900)], (there,))
    assert (decided.request, decided.wanted) == ((1,), frozenset())
    assert requested([UNKNOWN], (joined(1, 0, left_s=0),)).request == (1,), "its time is over"


def test_a_gang_gets_a_pilot_that_has_all_its_devices() -> None:
    assert requested([Demand(2), UNKNOWN], (coming(1, devices=1),)).request == (2,)


def test_the_parts_of_a_job_over_several_hosts_get_a_pilot_each() -> None:
    parts = [Demand(1, gang=7)] * 2
    assert requested(parts).request == (1, 1)
    assert requested(parts, (joined(1, 0, 0),)).request == (1,)


def test_no_pilot_is_requested_whose_hours_the_limit_does_not_leave() -> None:
    assert requested([UNKNOWN] * 8, device_hours=5).request == (2, 2, 1)
    assert requested([UNKNOWN] * 8, device_hours=0.5).request == ()


def test_short_jobs_follow_each_other_on_one_device_within_the_horizon() -> None:
    assert requested([SHORT] * 20, horizon_s=600).request == (2,)
    assert requested([SHORT] * 20, horizon_s=0, most=20).request == (2,) * 10
    assert requested([UNKNOWN] * 3, horizon_s=600).request == (2, 1), "one of unknown length may last longer than that"


def test_devices_that_will_be_free_within_the_horizon_count_as_far_as_they_are() -> None:
    assert requested([SHORT] * 5, (joined(1, 300.0),), horizon_s=600).request == ()
    assert requested([SHORT] * 6, (joined(1, 300.0),), horizon_s=600).request == (1,)
    assert requested([SHORT], (joined(1, inf),), horizon_s=600).request == (1,)


@pytest.mark.parametrize(
    ("name", "within"), [("eager", Horizon(0.0)), ("steady", Horizon(900.0)), ("thrifty", Horizon(5000.0, beside=True))]
)
def test_each_policy_has_its_horizon(name: str, within: Horizon) -> None:
    running = Allocation(1, ((Demand(lasts_s=5000.0), Demand()),), HOUR, started=True)
    assert horizon(name, 600.0, 900.0, [SHORT, UNKNOWN], [running]) == within


def test_beside_jobs_that_run_there_is_the_room_that_they_are_predicted_to_leave() -> None:
    there = Allocation(1, ((replace(HALF, lasts_s=600.0),),), HOUR, started=True)
    assert plan(LIMITS, [HALF], [there], Horizon(600.0)).request == (1,)
    assert plan(LIMITS, [HALF], [there], Horizon(600.0, beside=True)).request == ()
    assert plan(LIMITS, [HALF] * 2, [there], Horizon(600.0, beside=True)).request == (1,)
    assert plan(LIMITS, [replace(HALF, lasts_s=300.0)] * 2, [there], Horizon(600.0, beside=True)).request == ()
    unknown = Allocation(1, ((UNKNOWN,),), HOUR, started=True)
    assert plan(LIMITS, [HALF], [unknown], Horizon(600.0, beside=True)).request == (1,)


demands = st.builds(
    Demand,
    st.integers(1, 3),
    st.none() | st.floats(0, 100),
    st.none() | st.floats(0, 9000),
    st.none() | st.floats(0, 9000),
)
allocations = st.builds(
    Allocation,
    st.integers(),
    st.lists(st.sampled_from([0.0, 10.0, 700.0, inf]).map(busy), min_size=1, max_size=2).map(tuple),
    st.floats(0, HOUR),
    st.booleans(),
)


@given(
    waiting=st.lists(demands, max_size=30),
    pilots=st.lists(allocations, max_size=6, unique_by=lambda one: one.id),
    most=st.integers(1, 6),
    horizon_s=st.sampled_from([0.0, 600.0]),
)
def test_it_keeps_to_its_limits_and_takes_back_no_pilot_that_a_job_waits_for(
    waiting: list[Demand], pilots: list[Allocation], most: int, horizon_s: float
) -> None:
    decided = requested(waiting, tuple(pilots), horizon_s, most=most)
    left = len(pilots) - len(decided.cancel)
    assert left + len(decided.request) <= max(most, left)
    assert all(1 <= size <= LIMITS.devices for size in decided.request)
    assert not decided.wanted & set(decided.cancel)
    assert set(decided.cancel) <= {pilot.id for pilot in pilots if not pilot.started}


@example(waiting=[Demand(), Demand(lasts_s=0.0)], pilots=[], horizon_s=600.0)
@given(
    waiting=st.lists(demands, max_size=30),
    pilots=st.lists(allocations, max_size=6, unique_by=lambda one: one.id),
    horizon_s=st.sampled_from([0.0, 600.0]),
)
def test_what_it_requests_is_enough(waiting: list[Demand], pilots: list[Allocation], horizon_s: float) -> None:
    decided = requested(waiting, tuple(pilots), horizon_s, most=100)
    last = max((pilot.id for pilot in pilots), default=0)
    on_their_way = [coming(last + 1 + number, size) for number, size in enumerate(decided.request)]
    assert requested(waiting, (*pilots, *on_their_way), horizon_s, most=100).request == ()
