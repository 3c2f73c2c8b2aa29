"""Device time: busy, asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuq.sim.report.occupancy import DeviceDemand, busy_s, spans
from tests.sim.report.samples import a_job


def test_overlap_of_partners_counts_once() -> None:
    jobs = [a_job(1, 0, 100), a_job(2, 50, 150), a_job(3, 0, 30, device="gpu1")]
    assert busy_s(spans(jobs, 150).values()) == 180


def test_attempt_that_never_ended_lasts_until_the_end() -> None:
    job = a_job(1, 0, 1)
    job.attempts[0].ended_at = None
    assert busy_s(spans([job], 40).values()) == 40


def test_demand_counts_waiting_and_running_jobs() -> None:
    """One asks from 0 to 100, another from 50 to 150."""
    demand = DeviceDemand([a_job(1, 0, 100), a_job(2, 100, 150, submit=50)], 150)
    assert demand.mean(0, 150) == pytest.approx(200 / 150)
    assert demand.mean(50, 100) == 2
    assert demand.mean(100, 150) == 1


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 50)), min_size=1, max_size=12))
def test_busy_is_never_more_than_the_sum_and_never_less_than_the_longest(intervals: list[tuple[int, int]]) -> None:
    jobs = [a_job(n, start, start + long) for n, (start, long) in enumerate(intervals, 1)]
    found = busy_s(spans(jobs, 200).values())
    assert max(long for _, long in intervals) <= found <= sum(long for _, long in intervals)
