"""The randomised greedy: cheap with slack, fast under pressure, never more expensive than its deterministic orders."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuq.core.state.device import HostId
from gpuq.core.state.job import Job, JobId, KindId
from gpuq.policies.planners.andreas_plan import (
    Configuration,
    HostTimeline,
    WaitingJob,
    construct,
    expected_lateness_s,
    randomized_greedy,
)

HOUR = 3600.0
FAST, SLOW = Configuration("fast", 1, HOUR, 0.3, 60.0), Configuration("slow", 1, 2 * HOUR, 0.2, 60.0)
BOTH = [HostTimeline(HostId("f"), "fast", (0.0,)), HostTimeline(HostId("s"), "slow", (0.0,))]


def waiting_job(
    number: int, due_at: float, *configurations: Configuration, price: float = 1 / HOUR, aged: bool = False
) -> WaitingJob:
    job = Job(JobId(number), KindId("k"), "k", "ada", 0.0)
    return WaitingJob(job, due_at, price, configurations or (FAST, SLOW), aged)


def test_slack_takes_the_cheap_device_and_pressure_the_fast_one() -> None:
    found = randomized_greedy([waiting_job(1, 5 * HOUR), waiting_job(2, 1.2 * HOUR)], BOTH, 0.0, Random(1))
    assert {start.waiting_job.job.id: start.configuration.device_type for start in found.starts} == {
        1: "slow",
        2: "fast",
    }


def test_job_waits_where_a_later_start_is_cheaper() -> None:
    hosts = [HostTimeline(HostId("f"), "fast", (0.0,)), HostTimeline(HostId("s"), "slow", (HOUR,))]
    (start,) = randomized_greedy([waiting_job(1, 9 * HOUR)], hosts, 0.0, Random(1)).starts
    assert (start.configuration.device_type, start.at) == ("slow", HOUR)


def test_aged_job_goes_first_and_takes_the_earliest_end() -> None:
    hosts = [HostTimeline(HostId("f"), "fast", (0.0,)), HostTimeline(HostId("s"), "slow", (HOUR,))]
    first = randomized_greedy(
        [waiting_job(1, 9 * HOUR, aged=True), waiting_job(2, HOUR)], hosts, 0.0, Random(1)
    ).starts[0]
    assert (first.waiting_job.job.id, first.configuration.device_type) == (1, "fast")


def test_more_devices_are_used_only_under_pressure() -> None:
    one, two = Configuration("fast", 1, 2 * HOUR, 0.3, 60.0), Configuration("fast", 2, 1.2 * HOUR, 0.36, 60.0)
    hosts = [HostTimeline(HostId("f"), "fast", (0.0, 0.0))]
    assert (
        randomized_greedy([waiting_job(1, 9 * HOUR, one, two)], hosts, 0.0, Random(1)).starts[0].configuration.count
        == 1
    )
    assert (
        randomized_greedy([waiting_job(1, 1.5 * HOUR, one, two)], hosts, 0.0, Random(1)).starts[0].configuration.count
        == 2
    )


def test_gap_before_a_gang_is_used_by_a_job_that_ends_within_it() -> None:
    hosts = [HostTimeline(HostId("f"), "fast", (0.0, 2 * HOUR))]
    gang = waiting_job(1, 0.0, Configuration("fast", 2, HOUR, 0.0, 60.0), price=9 / HOUR)
    short, long = (
        waiting_job(2, 20 * HOUR, FAST),
        waiting_job(3, 20 * HOUR, Configuration("fast", 1, 9 * HOUR, 0.3, 60.0)),
    )
    at = {start.waiting_job.job.id: start.at for start in construct([gang, short, long], hosts, 0.0).starts}
    assert at == {1: 2 * HOUR, 2: 0.0, 3: 3 * HOUR}


def test_job_that_fits_no_host_is_not_planned() -> None:
    assert not randomized_greedy(
        [waiting_job(1, 0.0, Configuration("fast", 4, HOUR, 0.0, 60.0))], BOTH, 0.0, Random(1)
    ).starts
    assert not randomized_greedy([], BOTH, 0.0, Random(1)).starts


waiting_jobs = st.lists(
    st.builds(
        lambda number, due, hours, price, energy, spread: waiting_job(
            number,
            due * HOUR,
            Configuration("fast", 1, hours * HOUR, energy, spread),
            Configuration("slow", 1, 2 * hours * HOUR, energy / 2, spread),
            Configuration("slow", 2, 1.2 * hours * HOUR, energy, spread),
            price=price / HOUR,
        ),
        st.integers(1, 10_000), st.floats(0, 50), st.floats(0.1, 20), st.floats(0.1, 8), st.floats(0, 2), st.floats(0, HOUR),
    ),
    min_size=1, max_size=12, unique_by=lambda found: found.job.id,
)  # fmt: skip
hosts = st.lists(
    st.builds(
        lambda fast, times: ("fast" if fast else "slow", tuple(sorted(time * HOUR for time in times))),
        st.booleans(),
        st.lists(st.floats(0, 9), min_size=2, max_size=4),
    ),
    min_size=1,
    max_size=4,
).map(lambda found: [HostTimeline(HostId(str(number)), kind, times) for number, (kind, times) in enumerate(found)])


@given(waiting_jobs, hosts, st.integers(0, 9))
def test_plan_is_repeatable_and_no_more_expensive_than_the_first_construction(
    queue: list[WaitingJob], hosts: list[HostTimeline], seed: int
) -> None:
    pressed = sorted(
        queue, key=lambda w: (w.due_at - min(configuration.duration_s for configuration in w.configurations), w.job.id)
    )
    found = randomized_greedy(queue, hosts, 0.0, Random(seed))
    assert found.cost <= construct(pressed, hosts, 0.0).cost + 1e-9
    assert found == randomized_greedy(queue, hosts, 0.0, Random(seed))
    assert found.cost == pytest.approx(sum(start.cost for start in found.starts))


@given(waiting_jobs, hosts)
def test_no_device_has_two_jobs_at_once(queue: list[WaitingJob], hosts: list[HostTimeline]) -> None:
    starts = randomized_greedy(queue, hosts, 0.0, Random(1)).starts
    assert len({start.waiting_job.job.id for start in starts}) == len(starts)
    for timeline in hosts:
        here = [start for start in starts if start.host == timeline.host]
        for moment in {start.at for start in here}:
            held = sum(s.configuration.count for s in here if s.at <= moment < s.at + s.configuration.duration_s)
            assert held <= sum(free <= moment for free in timeline.free_at)


@given(st.lists(st.floats(0.1, 5), min_size=1, max_size=6))
def test_deadlines_are_met_with_a_device_for_each_job(hours: list[float]) -> None:
    queue = [
        waiting_job(n, h * HOUR * 1.5, Configuration("fast", 1, h * HOUR, 0.3, 1.0)) for n, h in enumerate(hours, 1)
    ]
    starts = randomized_greedy(queue, [HostTimeline(HostId("f"), "fast", (0.0,) * len(hours))], 0.0, Random(1)).starts
    assert all(start.at + start.configuration.duration_s <= start.waiting_job.due_at for start in starts)


@given(st.floats(-1e5, 1e5), st.floats(0, 1e4))
def test_expected_lateness_is_at_least_the_lateness_and_grows_with_the_spread(late_s: float, spread_s: float) -> None:
    expected = expected_lateness_s(late_s, spread_s)
    assert expected >= max(0.0, late_s) - 1e-6
    assert expected <= expected_lateness_s(late_s, spread_s + 1.0) + 1e-6
