"""A genetic algorithm over the plans of a batch (Holland, Adaptation in Natural and Artificial Systems, 1975).

The genes of a plan are its options. A child tries one random option, then the options of both parents except for a random few, in
a random order that favours valuable ones; it skips what no longer fits and is filled up greedily. The best plans survive.

The number of children is fixed and the random generator seeded, so that the same batch gives the same plan on any machine. The
greedy plan is in the first population.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from gpuq.policies.planners.batch import Batch
from gpuq.policies.planners.plan import Plan, complete, greedy, planner
from gpuq.policies.spec import PolicySpec

_POPULATION = 16
_GENERATIONS = 30
# Children are filled up from a pool: so many options with the highest value per device, and each job's best one. A few dozen of
# them fit, so options beyond these would only cost time.
_POOL = 400
# The probability that a child loses a gene of its parents.
_MUTATION = 0.15
# The order of genes is that of value per device times a log-normal factor with this standard deviation of the logarithm.
_ORDER_SIGMA = 0.3

# The options of a plan; and such a plan with its value.
_Genes = tuple[int, ...]
_Individual = tuple[float, _Genes]


def solve_genetic(batch: Batch, seed: int = 0, generations: int = _GENERATIONS) -> Plan:
    """The best plan of the last generation; no worse than the greedy one."""
    start = greedy(batch)
    if not len(start.chosen):
        return start
    breeder = _Breeder(batch, np.random.default_rng(seed))
    first = tuple(start.chosen.tolist())
    population = [(start.value, first), *(breeder.child(first, first) for _ in range(_POPULATION - 1))]
    for _ in range(generations):
        children = [breeder.child(*breeder.parents(population)) for _ in range(_POPULATION)]
        # Equal plans count once, or copies of the best one would soon fill the population.
        different: dict[_Genes, _Individual] = {}
        for individual in [*population, *children]:
            different.setdefault(tuple(sorted(individual[1])), individual)
        population = sorted(different.values(), key=lambda individual: -individual[0])[:_POPULATION]
    return Plan(batch, complete(batch, np.array(population[0][1], dtype=np.intp)))


class _Breeder:
    """Makes children. Plain numbers instead of arrays where it can, since a plan has only a handful of options."""

    def __init__(self, batch: Batch, rng: np.random.Generator) -> None:
        self._batch, self._rng = batch, rng
        self._density = batch.density
        order = np.argsort(-self._density, kind="stable")
        _, best_of_each_job = np.unique(batch.first[order], return_index=True)
        self._pool = np.union1d(order[:_POOL], order[best_of_each_job])
        self._by_density = self._pool[np.argsort(-self._density[self._pool], kind="stable")]
        # The resources that an option uses, of those that were asked for so far: few of a large batch ever are.
        self._uses: dict[int, list[tuple[int, int]]] = {}

    def parents(self, population: list[_Individual]) -> tuple[_Genes, _Genes]:
        """Two parents by binary tournament: each is the better of two drawn at random. `population` is sorted, the best
        first."""
        a, b, c, d = self._rng.integers(len(population), size=4).tolist()
        return population[min(a, b)][1], population[min(c, d)][1]

    def child(self, one: _Genes, other: _Genes) -> _Individual:
        """A child of these parents, with its value."""
        batch, rng = self._batch, self._rng
        genes = np.array(sorted({*one, *other}), dtype=np.intp)
        genes = genes[rng.random(len(genes)) >= _MUTATION]
        first = self._pool[rng.integers(len(self._pool))]
        order = np.argsort(
            -self._density[genes] * np.exp(_ORDER_SIGMA * rng.standard_normal(len(genes))), kind="stable"
        )
        left = batch.capacity.tolist()
        kept = self._take([int(first), *genes[order].tolist()], left)
        fillers = self._by_density[batch.fit(self._by_density, np.array(left))]
        child = sorted(kept + self._take(fillers.tolist(), left))
        return float(batch.value[child].sum()), tuple(child)

    def _take(self, options: list[int], left: list[int]) -> list[int]:
        """Those of the options, tried in this order, that fit into the capacity `left`, which they use up."""
        taken = []
        for option in options:
            uses = self._uses.get(option)
            if uses is None:
                rows, counts = self._batch.rows[option].tolist(), self._batch.counts[option].tolist()
                uses = self._uses[option] = [(row, count) for row, count in zip(rows, counts, strict=True) if count]
            if all(left[row] >= count for row, count in uses):
                for row, count in uses:
                    left[row] -= count
                taken.append(option)
        return taken


SPEC = PolicySpec(
    "plans each pass by a genetic algorithm",
    partial(planner, solve_genetic),
    work_conserving=True,
    starvation_free=False,
)
