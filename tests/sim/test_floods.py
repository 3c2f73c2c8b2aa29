"""One user submits thousands of jobs: how much longer the others wait. Virtual time, the real core."""

from __future__ import annotations

import random
from statistics import median

import pytest

from gpuq.core.state.job import JobId
from gpuq.policies.lists import order
from gpuq.policies.lists.list_scheduler import list_scheduler
from gpuq.sim.candidate import Candidate
from gpuq.sim.forecaster import Oracle
from gpuq.sim.run import simulate
from gpuq.sim.trace import JobArrival, Trace
from tests.sim.small import PACKED, world

DAY_S, HOUR_S = 86_400.0, 3600.0
# The default policy without the rule.
BEFORE = Candidate("before", list_scheduler(order.priority_first(order.shortest(100.0), DAY_S)))
Job = tuple[float, float, str]


class Durations(Oracle):
    """Knows how long each job runs; jobs as long as each other have one forecast, as those of a sweep do."""

    def signature(self, arrival: JobArrival) -> str:
        name = f"{arrival.duration_s:g}"
        self._arrivals.setdefault(name, arrival)
        return name


def labs_days(users: int, jobs_a_day: int, days: int, seed: int) -> list[Job]:
    """(submission, duration, user): each day's jobs come within eight hours, and last half an hour in the mean."""
    draw = random.Random(seed)
    return [
        (
            day * DAY_S + draw.uniform(0, 8 * HOUR_S),
            draw.choice((600.0, 1200.0, 1800.0, 3600.0)),
            f"user{draw.randrange(users)}",
        )
        for day in range(days)
        for _ in range(jobs_a_day)
    ]


def flood(jobs: int, duration_s: float = 1800.0) -> list[Job]:
    return [(HOUR_S, duration_s, "eve")] * jobs


def median_wait(jobs: list[Job], devices: int, candidate: Candidate = PACKED) -> float:
    """Of the jobs of all but eve, in seconds. Jobs use nearly a whole device, so none share one."""
    arrivals = (
        JobArrival(JobId(number), at, duration_s, 1, "heavy", user)
        for number, (at, duration_s, user) in enumerate(sorted(jobs), 1)
    )
    there = world(devices=devices)
    run = simulate(Trace("flood", tuple(arrivals)), there, Durations(there), candidate)
    return median(job.wait_s for job in run.jobs if job.arrival.owner != "eve" and job.wait_s is not None)


def test_a_flood_does_not_make_the_others_wait_half_as_long_again() -> None:
    usual = labs_days(users=10, jobs_a_day=100, days=1, seed=1)
    alone, beside = median_wait(usual, 4), median_wait(usual + flood(250), 4)
    assert alone > HOUR_S / 10, "without a queue there would be nothing to compare"
    assert beside <= 1.5 * alone
    assert median_wait(usual + flood(250), 4, BEFORE) > 3 * alone, "they would wait for the flood"


def test_the_schedule_of_one_user_is_the_same_with_and_without_the_rule() -> None:
    jobs = [(at, duration_s, "ann") for at, duration_s, _ in labs_days(10, 60, 1, seed=3)]
    assert median_wait(jobs, 2) == median_wait(jobs, 2, BEFORE) > 0


def test_small_jobs_do_not_keep_the_gangs_of_another_user_waiting_for_as_long_as_they_come() -> None:
    """Two gangs need more than twice the device-time of the few small jobs that wait at any one time."""
    day = [(at * 60.0, 240.0 + 120.0 * (at % 3), 1, "bob") for at in range(0, 24 * 60, 3)]
    jobs = sorted([*day, (HOUR_S, 900.0, 2, "ann"), (HOUR_S, 900.0, 2, "ann")])
    arrivals = tuple(
        JobArrival(JobId(number), at, duration_s, gpus, "heavy", user)
        for number, (at, duration_s, gpus, user) in enumerate(jobs, 1)
    )
    there = world(devices=2)
    run = simulate(Trace("gangs", arrivals), there, Durations(there), PACKED)
    waits = [job.wait_s for job in run.jobs if job.arrival.owner == "ann"]
    assert all(wait is not None and wait < 4 * HOUR_S for wait in waits), (
        "five times their half an hour, and each other"
    )


@pytest.mark.soak
def test_fifty_thousand_jobs_of_one_user() -> None:
    usual = labs_days(users=20, jobs_a_day=400, days=5, seed=1)
    alone, beside = median_wait(usual, 16), median_wait(usual + flood(50_000, 120.0), 16)
    print(f"median wait of the others: {alone:.0f} s alone, {beside:.0f} s beside the flood")
    assert alone > HOUR_S / 10
    assert beside <= 1.5 * alone
