"""Rivals that let two jobs share a device, each by its own rule.

All of them know each kind's true memory in advance, or assume a third of the device in worlds without memory. None keeps
further memory free, and none reserves devices for jobs that waited long.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf
from statistics import mean

from gpuq.core.scheduling.limits import Limits
from gpuq.lab.rivals.exclusive import least_left
from gpuq.lab.rivals.views import Rule, any_two, by_rule, memory_of, utilization_of
from gpuq.policies.lists import order
from gpuq.policies.lists.list_scheduler import list_scheduler
from gpuq.policies.lists.order import QueueOrder
from gpuq.policies.lists.packed import make
from gpuq.settings import Scheduling
from gpuq.sim.candidate import Candidate
from gpuq.sim.forecaster import Oracle
from gpuq.sim.world import World


def declared_memory(world: World, limits: Limits) -> Candidate:
    """gflow with `--shared`, jobd: two may share if what their submitters declared fits, whatever the load; first come, and
    what does not fit is skipped. Declarations are true here; people guess."""
    return _sharing("declared-memory-only", world, limits, any_two)


def two_always(world: World, limits: Limits) -> Candidate:
    """Two slots on each GPU, as fractional requests are used: memory and load do not count; first come, skipping."""
    return _sharing("two-per-gpu-always", world, limits, any_two, memory=lambda _: 0)


def threshold_80(world: World, limits: Limits) -> Candidate:
    """CARMA (arXiv 2508.19073): a task joins a device that is used at most 80% now, if its estimated memory fits; what runs out
    of memory is started again alone, as with gpuq. Its estimate is right here. First come, skipping."""
    used = utilization_of(world)
    return _sharing(
        "utilisation-80-oom-retry", world, limits,
        lambda _, resident: used(resident) / 100 if used(resident) <= 80 else None,
    )  # fmt: skip


def speed_classes(world: World, limits: Limits) -> Candidate:
    """Lucid (ASPLOS'23): jobs are classed by their speed beside others as measured before (below .85: 2, below .95: 1, else
    0), two share if the classes add up to 2 at most; the least predicted device-time first.

    Theirs predicts classes from a profile run of minutes; here they are the true ones over all of the world's pairs. Theirs
    shares gangs of equal size only, this one any.
    """
    classes = _classes(world)

    def rule(newcomer: str, resident: str) -> float | None:
        score = classes[world.workload_of[newcomer]] + classes[world.workload_of[resident]]
        return score / 10 if score <= 2 else None

    return _sharing("speed-classes", world, limits, rule, first=least_left())


def sum_of_utilization(world: World, limits: Limits) -> Candidate:
    """The plain rule: two share if their utilisations alone add up to 100% at most; the least predicted device-time first."""
    used = utilization_of(world)

    def rule(newcomer: str, resident: str) -> float | None:
        load = used(newcomer) + used(resident)
        return load / 1000 if load <= 100 else None

    return _sharing("sum-of-utilisation", world, limits, rule, first=least_left())


def oracle_packing(world: World, limits: Limits) -> Candidate:
    """A bound, not a rival: gpuq with every duration and every pair known."""
    return Candidate("oracle-packing", make(Scheduling()), limits, lambda _: Oracle(world))


def oracle_exclusive(world: World, limits: Limits) -> Candidate:
    """`oracle-packing` without sharing: the same order and backfill, one job on a device, every duration known."""
    own = replace(limits, residents_per_device=1)
    return Candidate("oracle-exclusive", make(Scheduling()), own, lambda _: Oracle(world))


def _sharing(
    name: str,
    world: World,
    limits: Limits,
    rule: Rule,
    *,
    first: QueueOrder = order.ARRIVAL,
    memory: Callable[[str], int] | None = None,
) -> Candidate:
    own = replace(
        limits, residents_per_device=2, memory_headroom=0.0, patience_s=inf, objective="slowdown",
        candidates_per_job=len(world.devices),
    )  # fmt: skip
    return Candidate(name, list_scheduler(first), own, by_rule(rule, memory or memory_of(world)))


def _classes(world: World) -> dict[str, int]:
    """Each workload's class, by its mean speed over all partners."""
    speeds: dict[str, list[float]] = {}
    for (own, _), slowdown in world.pairs.items():
        speeds.setdefault(own, []).append(1 / slowdown)
    return {name: sum(mean(found) < bound for bound in (0.85, 0.95)) for name, found in speeds.items()}
