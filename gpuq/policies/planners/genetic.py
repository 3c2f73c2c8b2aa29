"""A genetic algorithm over plans (Holland, Adaptation in Natural and Artificial Systems, 1975).

A plan's genes are its options. A child takes one option that is new to it, then those of both parents, but for a few, in an
order drawn with luck for the valuable; skips what no longer fits; and is filled up greedily. The best survive. The number of
children is fixed, so that the same batch gives the same plan on any machine. The greedy plan is among the first parents.
"""

from __future__ import annotations

import numpy as np

from gpuq.core.scheduling.policy import Policy
from gpuq.policies.planners.batch import Batch, Indices, Numbers
from gpuq.policies.planners.plan import SEED, Plan, complete, greedy, planner
from gpuq.policies.spec import PolicySpec
from gpuq.settings import Scheduling

_POPULATION = 16
_GENERATIONS = 30
# Plans are filled up from the options worth most per device and from each job's best; a few dozen find room.
_POOL = 400
_LOST = 0.15
# How far luck may change what an option seems worth: the standard deviation of its logarithm.
_LUCK = 0.3


def solve_genetic(batch: Batch, seed: int = SEED, generations: int = _GENERATIONS) -> Plan:
    """The best plan of the last generation; no worse than the greedy one."""
    start = greedy(batch)
    if not len(start.chosen):
        return start
    rng, pool = np.random.default_rng(seed), _pool(batch)
    population = [start, *(_child(start, start, pool, rng) for _ in range(_POPULATION - 1))]
    for _ in range(generations):
        children = [_child(*_parents(population, rng), pool, rng) for _ in range(_POPULATION)]
        population = sorted(_different([*population, *children]), key=lambda plan: -plan.value)[:_POPULATION]
    best = population[0]
    return Plan(batch, complete(batch, best.chosen))


def _pool(batch: Batch) -> Indices:
    order = np.argsort(-batch.density, kind="stable")
    _, bests = np.unique(batch.first[order], return_index=True)
    return np.union1d(order[:_POOL], order[bests])


def _parents(population: list[Plan], rng: np.random.Generator) -> tuple[Plan, Plan]:
    """Two, each the better of two drawn: the population is sorted, the best first."""
    draws = np.sort(rng.integers(len(population), size=(2, 2)), axis=1)[:, 0]
    return population[draws[0]], population[draws[1]]


def _child(one: Plan, other: Plan, pool: Indices, rng: np.random.Generator) -> Plan:
    batch = one.batch
    genes = np.union1d(one.chosen, other.chosen)
    genes = genes[rng.random(len(genes)) >= _LOST]
    order = [rng.choice(pool), *genes[np.argsort(-_lucky(batch.density[genes], rng), kind="stable")]]
    left, kept = batch.capacity.copy(), []
    for option in order:
        if (left[batch.rows[option]] >= batch.counts[option]).all():
            np.subtract.at(left, batch.rows[option], batch.counts[option])
            kept.append(option)
    filled = complete(batch, np.array(kept, dtype=np.intp), among=pool)
    return Plan(batch, np.sort(filled))


def _lucky(density: Numbers, rng: np.random.Generator) -> Numbers:
    return density * np.exp(_LUCK * rng.standard_normal(len(density)))


def _different(plans: list[Plan]) -> list[Plan]:
    found: dict[bytes, Plan] = {}
    for plan in plans:
        found.setdefault(_key(plan.chosen), plan)
    return list(found.values())


def _key(chosen: Indices) -> bytes:
    return np.sort(chosen).tobytes()


def _make(scheduling: Scheduling) -> Policy:
    return planner(solve_genetic, scheduling)


SPEC = PolicySpec("plans each pass by a genetic algorithm", _make, work_conserving=True, starvation_free=False)
