"""The rule of each rival, in the same core: two jobs, one device, and which pairs share."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.job import JobId
from gpuq.lab.rivals import ABLATIONS, BOUNDS, RIVALS
from gpuq.lab.rivals.exclusive import least_attained_order
from gpuq.sim.forecaster import Cold, Oracle
from gpuq.sim.record import SimulationRun
from gpuq.sim.run import simulate
from gpuq.sim.trace import JobArrival, Trace
from gpuq.sim.world import World
from tests.policies.lists.test_order import playing, started
from tests.sim.small import GIB, arrivals, ends, world
from tests.support.nouns import a_job

ALL = {**RIVALS, **BOUNDS, **ABLATIONS}
LIMITS = Limits(max_slowdown=1.2)


def play(name: str, trace: Trace, where: World, *, cold: bool = False) -> SimulationRun:
    return simulate(trace, where, Cold() if cold else Oracle(where), ALL[name](where, LIMITS))


def together(name: str, *kinds: str, where: World | None = None, cold: bool = False) -> bool:
    """Whether these two ever ran side by side on the one device."""
    run = play(name, arrivals(*kinds), where or world(), cold=cold)
    return any(stretch.beside for job in run.jobs for attempt in job.attempts for stretch in attempt.stretches)


@pytest.mark.parametrize("name", ALL)
def test_each_candidate_has_its_name_and_finishes_every_job(name: str) -> None:
    where = world(devices=2)
    run = play(name, arrivals("light", "heavy", "light", "heavy", "light"), where)

    assert run.policy == name
    assert all(job.ended_at is not None for job in run.jobs)


@pytest.mark.parametrize(
    ("name", "two_light", "light_and_heavy", "two_heavy"),
    [
        ("exclusive-fifo", False, False, False),
        ("exclusive-shortest-backfill", False, False, False),
        ("least-attained-preemptive", False, False, False),
        ("oracle-shortest-remaining-first", False, False, False),
        ("packed-exclusive", False, False, False),
        ("declared-memory-only", True, True, True),
        ("two-per-gpu-always", True, True, True),
        ("packed-blind", True, True, True),
        ("utilisation-80-oom-retry", True, True, False),
        ("sum-of-utilisation", True, False, False),
        ("packed", True, False, False),
        ("packed-needs-known", True, False, False),
        ("packed-saving", True, False, False),
        ("oracle-packing", True, False, False),
        ("oracle-exclusive", False, False, False),
    ],
)
def test_which_pairs_share_by_each_rule(name: str, two_light: bool, light_and_heavy: bool, two_heavy: bool) -> None:
    assert together(name, "light", "light") == two_light
    assert together(name, "light", "heavy") == light_and_heavy
    assert together(name, "heavy", "heavy") == two_heavy


@pytest.mark.parametrize(
    ("slowdown", "shares"), [(1.03, True), (1.1, True), (1.25, False)], ids=["class 0", "class 1", "class 2"]
)
def test_speed_classes_add_up_to_two_at_most(slowdown: float, shares: bool) -> None:
    """Speeds .97, .91 and .80: two of class 1 may share, two of class 2 may not."""
    small = world()
    even = replace(small, pairs=dict.fromkeys(small.pairs, slowdown))

    assert together("speed-classes", "light", "heavy", where=even) == shares


@pytest.mark.parametrize("name", ["declared-memory-only", "utilisation-80-oom-retry", "sum-of-utilisation"])
def test_memory_that_does_not_fit_keeps_jobs_apart_unless_the_rule_ignores_it(name: str) -> None:
    small = world()
    large = {n: replace(w, memory_bytes=9 * GIB) for n, w in small.workloads.items()}
    full = replace(small, workloads=large)

    assert not together(name, "light", "light", where=full)
    assert together("two-per-gpu-always", "light", "light", where=full)


def test_a_rival_needs_no_first_run_where_gpuq_does() -> None:
    assert together("sum-of-utilisation", "light", "light", cold=True)
    assert not together("packed", "light", "light", cold=True)


def test_objective_saving_admits_a_slow_pair_that_saves_enough() -> None:
    small = world()
    even = {speed: replace(small, pairs=dict.fromkeys(small.pairs, speed)) for speed in (1.7, 1.9)}

    assert together("packed-saving", "light", "heavy", where=even[1.7]), "0.15 saved: 1 - 1.7 / 2"
    assert not together("packed-saving", "light", "heavy", where=even[1.9])
    assert not together("packed", "light", "heavy", where=even[1.7])


def test_bounds_know_everything_without_learning() -> None:
    assert together("oracle-packing", "light", "light", cold=True)


def test_known_needs_let_jobs_share_but_do_not_change_the_order() -> None:
    """So that a report can tell what sharing could add from what an order could."""
    long_first = mixed(10, 100, 20, every_s=1)

    assert together("packed-needs-known", "light", "light", cold=True)
    assert ends(play("packed-needs-known", long_first, world(), cold=True)) == [11, 111, 131]
    assert ends(play("oracle-exclusive", long_first, world(), cold=True)) == [11, 131, 31]


def mixed(*durations: float, every_s: float = 0.0) -> Trace:
    found = (JobArrival(JobId(n), n * every_s, seconds, 1, "heavy", "ada") for n, seconds in enumerate(durations, 1))
    return Trace("mixed", tuple(found))


def test_fifo_takes_them_as_they_come_and_the_shortest_first_does_not() -> None:
    long_first = mixed(10, 100, 20, every_s=1)

    assert ends(play("exclusive-fifo", long_first, world())) == [11, 111, 131]
    assert ends(play("exclusive-shortest-backfill", long_first, world())) == [11, 131, 31]


def test_the_shortest_left_stops_the_longer_one_which_keeps_its_work() -> None:
    run = play("oracle-shortest-remaining-first", mixed(100, 20, every_s=10), world())

    assert ends(run) == [130, 40]
    assert len(run.jobs[0].attempts) == 2


def test_least_served_job_stops_one_that_ran_for_an_hour() -> None:
    run = play("least-attained-preemptive", mixed(8000, 20, every_s=4000), world())
    assert ends(run) == [12020, 8020]

    first, second = ends(play("least-attained-preemptive", mixed(8000, 20, every_s=1000), world()))
    assert second >= 1000 + 3600 + 20, "the first has its hour"
    assert first == 9020


def test_least_attained_orders_by_thresholds_of_service() -> None:
    jobs = (a_job(1, served_s=5000.0), a_job(2, served_s=200.0), a_job(3, served_s=100.0))

    assert started(playing(least_attained_order((3600.0,)), *jobs)) == [2, 3, 1]
