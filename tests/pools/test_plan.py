"""How many pilots a pool requests."""

from hypothesis import given
from hypothesis import strategies as st

from gpuq.pools.plan import Allocation, Requests, Waiting, plan
from gpuq.pools.pool import Pool

UNKNOWN, HALF, GANG = Waiting(1), Waiting(1, 40.0), Waiting(4)


def pool(**changes: object) -> Pool:
    return Pool(**{"name": "slurm", "gpus": 2, "most": 4, **changes})  # type: ignore[arg-type]


def coming(number: int) -> Allocation:
    return Allocation(number, f"slurm-{number}")


def joined(number: int, idle_devices: int) -> Allocation:
    return Allocation(number, f"slurm-{number}", idle_devices)


def test_no_job_waits_so_nothing_is_requested() -> None:
    assert plan(pool(), [], [], 0) == Requests(0)


def test_jobs_of_which_nothing_is_known_get_a_device_each() -> None:
    assert plan(pool(), [UNKNOWN] * 3, [], 0) == Requests(2)


def test_jobs_that_share_are_counted_for_one_device() -> None:
    assert plan(pool(), [HALF] * 4, [], 0) == Requests(1)


def test_idle_devices_and_pilots_on_their_way_are_used_first() -> None:
    assert plan(pool(), [UNKNOWN] * 4, [joined(1, 2), coming(2)], 0) == Requests(0)
    assert plan(pool(), [UNKNOWN] * 6, [joined(1, 2), coming(2)], 0) == Requests(1)


def test_a_pool_has_no_more_pilots_than_it_may_have() -> None:
    assert plan(pool(most=2), [UNKNOWN] * 20, [joined(1, 0)], 0) == Requests(1)


def test_pilots_that_are_not_needed_any_more_are_taken_back_the_newest_first() -> None:
    assert plan(pool(), [UNKNOWN], [coming(3), coming(1), coming(2)], 0) == Requests(0, (2, 3))


def test_a_job_that_is_larger_than_a_pilot_requests_none() -> None:
    assert plan(pool(), [GANG], [], 0) == Requests(0)


def test_no_pilot_is_requested_whose_hours_the_limit_does_not_leave() -> None:
    limited = pool(time_limit_s=3600, most_hours=5)  # two GPU-hours for each pilot
    assert plan(limited, [UNKNOWN] * 8, [], 0) == Requests(2)
    assert plan(limited, [UNKNOWN] * 8, [], 2.5) == Requests(1)
    assert plan(limited, [UNKNOWN] * 8, [joined(1, 0)], 2) == Requests(0)


demands = st.builds(Waiting, st.integers(1, 3), st.none() | st.floats(0, 100))


@given(
    waiting=st.lists(demands, max_size=30),
    idle=st.lists(st.none() | st.integers(0, 2), max_size=6),
    most=st.integers(1, 6),
)
def test_it_never_exceeds_its_limit_and_never_requests_while_it_takes_back(
    waiting: list[Waiting], idle: list[int | None], most: int
) -> None:
    pilots = [Allocation(number, str(number), free) for number, free in enumerate(idle)]
    decided = plan(pool(most=most), waiting, pilots, 0)
    assert len(pilots) + decided.request <= max(most, len(pilots))
    assert not (decided.request and decided.cancel)
    assert set(decided.cancel) <= {pilot.slurm_job for pilot in pilots if pilot.idle_devices is None}
