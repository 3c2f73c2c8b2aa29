"""A genetic algorithm over the plans of a batch (Holland, Adaptation in Natural and Artificial Systems, 1975).

The genes of a plan are its options. A child tries one random option, then the options of both parents except for a random few, in
a random order that favours valuable ones; it skips what no longer fits and is filled up greedily. The best plans survive.

The number of children is fixed and the random generator seeded, so that the same batch gives the same plan on any machine. The
greedy plan is in the first population.
"""

from __future__ import annotations

import numpy as np

from gpuq.core.scheduling.policy import Policy
from gpuq.policies.planners.batch import Batch, Indices
from gpuq.policies.planners.plan import SEED, Plan, complete, greedy, planner
from gpuq.policies.spec import PolicySpec
from gpuq.settings import Scheduling

_POPULATION = 16
_GENERATIONS = 30
# Children are filled up from a pool: so many options with the highest value per device, and each job's best one. A few dozen of
# them fit, so options beyond these would only cost time.
_POOL = 400
# The probability that a child loses a gene of its parents.
_MUTATION = 0.15
# The order of genes is that of value per device times a log-normal factor with this standard deviation of the logarithm.
_ORDER_SIGMA = 0.3


def solve_genetic(batch: Batch, seed: int = SEED, generations: int = _GENERATIONS) -> Plan:
    """The best plan of the last generation; no worse than the greedy one."""
    start = greedy(batch)
    if not len(start.chosen):
        return start
    order = np.argsort(-batch.density, kind="stable")
    _, best_of_each_job = np.unique(batch.first[order], return_index=True)
    pool = np.union1d(order[:_POOL], order[best_of_each_job])
    rng = np.random.default_rng(seed)
    population = [start, *(_child(start, start, pool, rng) for _ in range(_POPULATION - 1))]
    for _ in range(generations):
        children = [_child(*_parents(population, rng), pool, rng) for _ in range(_POPULATION)]
        # Equal plans count once, or copies of the best one would soon fill the population.
        different: dict[bytes, Plan] = {}
        for plan in [*population, *children]:
            different.setdefault(np.sort(plan.chosen).tobytes(), plan)
        population = sorted(different.values(), key=lambda plan: -plan.value)[:_POPULATION]
    return Plan(batch, complete(batch, population[0].chosen))


def _parents(population: list[Plan], rng: np.random.Generator) -> tuple[Plan, Plan]:
    """Two parents by binary tournament: each is the better of two drawn at random. `population` is sorted, the best first."""
    draws = np.sort(rng.integers(len(population), size=(2, 2)), axis=1)[:, 0]
    return population[draws[0]], population[draws[1]]


def _child(one: Plan, other: Plan, pool: Indices, rng: np.random.Generator) -> Plan:
    batch = one.batch
    genes = np.union1d(one.chosen, other.chosen)
    genes = genes[rng.random(len(genes)) >= _MUTATION]
    first = rng.choice(pool)
    order = np.argsort(-batch.density[genes] * np.exp(_ORDER_SIGMA * rng.standard_normal(len(genes))), kind="stable")
    left, kept = batch.capacity.copy(), []
    for option in [first, *genes[order]]:
        if (left[batch.rows[option]] >= batch.counts[option]).all():
            np.subtract.at(left, batch.rows[option], batch.counts[option])
            kept.append(option)
    filled = complete(batch, np.array(kept, dtype=np.intp), among=pool)
    return Plan(batch, np.sort(filled))


def _make(scheduling: Scheduling) -> Policy:
    return planner(solve_genetic, scheduling)


SPEC = PolicySpec("plans each pass by a genetic algorithm", _make, work_conserving=True, starvation_free=False)
