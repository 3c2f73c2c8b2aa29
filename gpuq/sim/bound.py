"""The most that sharing could save: if all jobs were there at once, and free to change partners at any moment.

Arrives: a scenario, and the limits that pairs are held to. Leaves: a share of the device time that the jobs take run exclusively,
an upper bound of the packing saving of any schedule whose pairs keep to the limits. Ignores who is there when, hosts, and what
would have to be learned first: what is between this and what a policy saves is order and luck as well as knowledge.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import combinations_with_replacement

import numpy as np

from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.forecast import PairCost
from gpuq.core.state.job import KindId
from gpuq.sim.memory import peak_memory
from gpuq.sim.scenario_builder import Scenario
from gpuq.sim.world import World

# Of more pairs the program below takes longer than a person wants to wait for one figure.
_MOST_PAIRS = 200_000


@dataclass(frozen=True)
class _Pair:
    """Two workloads by their places in a list, and the slowdown of each beside the other."""

    one: int
    other: int
    slowdowns: tuple[float, float]


def possible_saving(scenario: Scenario, limits: Limits) -> float | None:
    """The bound: 0.5 would be two jobs on every device that do not disturb each other. None without SciPy, where more than
    two may share a device, since no such slowdowns were measured, where devices differ in speed, and where kinds are too
    many to pair."""
    world = scenario.world
    if limits.residents_per_device < 2:
        return 0.0
    if limits.residents_per_device > 2 or len({device.type for device in world.devices}) > 1:
        return None
    work, memory = _asked(scenario)
    names = sorted(work)
    if sum(work.values()) <= 0 or len(names) * (len(names) + 1) // 2 > _MOST_PAIRS:
        return None
    if not can_be_computed():
        return None
    pairs = list(_suiting(world, names, memory, limits))
    return 1 - _least_device_time([work[name] for name in names], pairs) / sum(work.values())


def can_be_computed() -> bool:
    """Whether SciPy, which solves for the bound, is installed."""
    return find_spec("scipy") is not None


def _asked(scenario: Scenario) -> tuple[Mapping[str, float], Mapping[str, int]]:
    """Of each workload: device-seconds of all its jobs alone, and the bytes of the job that needs the fewest."""
    work: dict[str, float] = defaultdict(float)
    memory: dict[str, int] = {}
    for arrival in scenario.trace.arrivals:
        name = scenario.world.workload_of[arrival.kind]
        needed = peak_memory(scenario.world, arrival) or 0
        work[name] += arrival.duration_s * arrival.devices
        memory[name] = min(needed, memory.get(name, needed))
    return work, memory


def _suiting(world: World, names: Sequence[str], memory: Mapping[str, int], limits: Limits) -> Iterator[_Pair]:
    """The pairs that fit on a device and that the limits allow, by what they really cost."""
    room = world.largest_memory - int(world.largest_memory * limits.memory_headroom)
    for one, other in combinations_with_replacement(range(len(names)), 2):
        a, b = names[one], names[other]
        slowdowns = world.pairs[a, b], world.pairs[b, a]
        if memory[a] + memory[b] <= room and _allowed(slowdowns, limits):
            yield _Pair(one, other, slowdowns)


def _allowed(slowdowns: tuple[float, float], limits: Limits) -> bool:
    if limits.objective == "slowdown":
        return max(slowdowns) <= limits.max_slowdown
    one, other = slowdowns
    return (PairCost(KindId(""), one, one, other, other).saving or 0.0) >= limits.least_saving


def _least_device_time(work: Sequence[float], pairs: Sequence[_Pair]) -> float:
    """A linear program over the device time that each workload has alone and each pair has together: the least in which all
    work gets done. In a second beside another a job does 1 / slowdown of what it does alone."""
    # It takes a while to import, and only a report wants it.
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    count = len(work)
    columns = [*range(count), *(count + place for place in range(len(pairs)) for _ in range(2))]
    rows = [*range(count), *(index for pair in pairs for index in (pair.one, pair.other))]
    done = [*([1.0] * count), *(1 / slowdown for pair in pairs for slowdown in pair.slowdowns)]
    # Two of one workload stand in one cell: what both do is added up.
    matrix = coo_array((done, (rows, columns)), shape=(count, count + len(pairs))).tocsr()
    found = linprog(np.ones(count + len(pairs)), A_eq=matrix, b_eq=work, bounds=(0, None), method="highs")
    return float(found.fun)
