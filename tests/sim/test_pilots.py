"""Pilots in the simulator: what each policy of scaling is charged, and when the jobs have ended."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from gpuq.core.state.job import JobState
from gpuq.sim.forecaster import Cold, Oracle
from gpuq.sim.pilots import PilotRun, PilotSimulation, SimulatedPool
from gpuq.sim.trace import JobArrival, Trace
from tests.sim.small import PACKED, arrival, trace, world

WORLD = world(devices=4, hosts=20)
POOL = SimulatedPool("eager", most=20, devices=4, time_s=3600, idle_s=300, queue_wait_s=30)


def played(jobs: Trace, pool: SimulatedPool = POOL, *, known: bool = True) -> PilotRun:
    return PilotSimulation(pool, jobs, WORLD, Oracle(WORLD) if known else Cold(), PACKED).play_pilots()


@cache
def bursts(scaling: str, *, known: bool) -> PilotRun:
    """Forty short jobs every half hour, and a long one among them."""
    found: list[JobArrival] = []
    for burst in range(4):
        for number in range(40):
            lasts_s = 1500.0 if number == 7 else 30.0 + number * 37 % 60
            found.append(arrival(len(found) + 1, "light" if number % 2 else "heavy", burst * 1800.0, lasts_s))
    return played(trace(*found), replace(POOL, scaling=scaling), known=known)


def assert_all_ended(done: PilotRun) -> None:
    assert {job.state for job in done.run.jobs} == {JobState.COMPLETED}
    assert all(pilot.ended_at is not None for pilot in done.pilots), "a pilot leaked"


def test_a_job_is_charged_from_the_start_of_its_pilot_until_that_was_idle_for_long_enough() -> None:
    done = played(trace(arrival(1, "light", duration_s=100.0)))
    assert_all_ended(done)
    (pilot,) = done.pilots
    assert pilot.size == 1
    assert done.run.jobs[0].first_started_at == 30.0
    assert done.device_hours * 3600 == pytest.approx(400, abs=5)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("scaling", ["eager", "steady", "thrifty"])
def test_every_job_ends_and_no_pilot_is_left(scaling: str, known: bool) -> None:
    assert_all_ended(bursts(scaling, known=known))


def test_steady_is_charged_far_less_than_eager_and_its_jobs_end_a_little_later() -> None:
    eager, steady = (bursts(name, known=True) for name in ("eager", "steady"))
    assert steady.device_hours < 0.6 * eager.device_hours
    assert steady.mean_completion_s < eager.mean_completion_s + POOL.idle_s


def test_thrifty_is_charged_far_less_than_steady_and_the_last_job_ends_a_little_later() -> None:
    steady, thrifty = (bursts(name, known=True) for name in ("steady", "thrifty"))
    assert thrifty.device_hours < 0.6 * steady.device_hours
    assert thrifty.run.ended_at < steady.run.ended_at + 1500.0, "by the longest job at most"


def test_a_job_that_would_outlast_a_pilot_waits_for_the_next_one() -> None:
    pool = replace(POOL, time_s=1000.0)
    done = played(trace(arrival(1, "heavy", 0.0, 900.0), arrival(2, "heavy", 700.0, 900.0)), pool)
    assert_all_ended(done)
    assert len(done.pilots) == 2
    assert [len(job.attempts) for job in done.run.jobs] == [1, 1]


def test_a_job_that_no_pilot_can_run_requests_none() -> None:
    done = played(trace(arrival(1, "heavy", 0.0, 2000.0)), replace(POOL, time_s=1000.0))
    assert done.pilots == []


def test_a_preemptible_job_goes_on_from_what_it_saved_until_it_has_ended() -> None:
    done = played(trace(arrival(1, "heavy", 0.0, 2500.0, preemptible=True)), replace(POOL, time_s=1000.0))
    assert_all_ended(done)
    assert len(done.run.jobs[0].attempts) == 3
    assert done.device_hours * 3600 == pytest.approx(2500 + POOL.idle_s, abs=10)
