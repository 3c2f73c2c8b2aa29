"""An upper bound on what sharing can save, computed by a linear program.

It assumes that all jobs are there at once and may change partners at any moment, so no schedule whose pairs keep to the limits
saves more. It ignores arrival times, hosts, and what would have to be learned first: the gap to what a policy saves is due to
order and luck as well as to knowledge.
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

# With more pairs the linear program takes longer than a person wants to wait for one figure.
_MOST_PAIRS = 200_000


@dataclass(frozen=True)
class _Pair:
    """Two workloads by their indexes in a list, and the slowdown of each beside the other."""

    one: int
    other: int
    slowdowns: tuple[float, float]


def possible_saving(scenario: Scenario, limits: Limits) -> float | None:
    """The bound as a share of the device time that the jobs take exclusively; 0.5 would be two undisturbed jobs on every
    device.

    None without SciPy, where more than two may share a device (no such slowdowns were measured), where device types differ in
    speed, and with too many workloads to pair.
    """
    world = scenario.world
    if limits.residents_per_device < 2:
        return 0.0
    if limits.residents_per_device > 2 or len({device.type for device in world.devices}) > 1:
        return None
    work, memory = _work_and_memory(scenario)
    names = sorted(work)
    if sum(work.values()) <= 0 or len(names) * (len(names) + 1) // 2 > _MOST_PAIRS:
        return None
    if not can_be_computed():
        return None
    pairs = list(_allowed_pairs(world, names, memory, limits))
    return 1 - _least_device_time([work[name] for name in names], pairs) / sum(work.values())


def can_be_computed() -> bool:
    """Whether SciPy, which solves for the bound, is installed."""
    return find_spec("scipy") is not None


def _work_and_memory(scenario: Scenario) -> tuple[Mapping[str, float], Mapping[str, int]]:
    """For each workload: device-seconds of all its jobs alone, and the bytes of the job that needs the fewest."""
    work: dict[str, float] = defaultdict(float)
    memory: dict[str, int] = {}
    for arrival in scenario.trace.arrivals:
        name = scenario.world.workload_of[arrival.kind]
        needed = peak_memory(scenario.world, arrival) or 0
        work[name] += arrival.duration_s * arrival.devices
        memory[name] = min(needed, memory.get(name, needed))
    return work, memory


def _allowed_pairs(world: World, names: Sequence[str], memory: Mapping[str, int], limits: Limits) -> Iterator[_Pair]:
    """The pairs that fit on a device and that the limits allow, judged by their true slowdowns."""
    room = world.largest_memory - int(world.largest_memory * limits.memory_headroom)
    for one, other in combinations_with_replacement(range(len(names)), 2):
        a, b = names[one], names[other]
        own, others = world.pairs[a, b], world.pairs[b, a]
        if limits.objective == "slowdown":
            allowed = max(own, others) <= limits.max_slowdown
        else:
            allowed = (PairCost(KindId(""), own, own, others, others).saving or 0.0) >= limits.least_saving
        if allowed and memory[a] + memory[b] <= room:
            yield _Pair(one, other, (own, others))


def _least_device_time(work: Sequence[float], pairs: Sequence[_Pair]) -> float:
    """The least device time in which all work gets done: a linear program over the time of each workload alone and of each
    pair together. In a second beside a partner a job does 1 / slowdown of what it does alone."""
    # SciPy is slow to import and optional.
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
