"""Simulated annealing over the plans of a batch (Kirkpatrick, Gelatt and Vecchi, Science 220, 1983).

A move puts one option into the plan, takes out the options that are in its way, and fills the freed capacity greedily. A move
that makes the plan better is kept; one that changes its value by d < 0 is kept with probability exp(d / temperature). The
temperature falls geometrically over a fixed number of moves, so that the same batch gives the same plan on any machine. The
search starts from the greedy plan and returns the best plan that it met.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from gpuq.policies.planners.batch import Batch, Indices
from gpuq.policies.planners.plan import Plan, better, complete, greedy, planner
from gpuq.policies.spec import PolicySpec

_MOVES = 4_000
_MOVES_PER_OPTION = 20
# Freed capacity is filled from so many options of each job and slot, those with the highest value per device.
_FILLERS = 24
# The first temperature as a share of the median value of the plan's options, and the last one as a share of the first.
_HOTTEST = 0.3
_COOLING = 1e-3


def solve_annealing(batch: Batch, seed: int = 0, moves: int = _MOVES) -> Plan:
    """The best plan met; no worse than the greedy one."""
    start = greedy(batch)
    if not len(start.chosen):
        return start
    moves = min(moves, _MOVES_PER_OPTION * batch.size)
    best = _Walk(batch, start.chosen).anneal(np.random.default_rng(seed), moves)
    return better(start, Plan(batch, complete(batch, best)))


class _Walk:
    """The current plan. Plain lists instead of arrays, since a move changes only a handful of numbers."""

    def __init__(self, batch: Batch, chosen: Indices) -> None:
        self._batch = batch
        self._value = batch.value.tolist()
        # By resource: the capacity left, the options in the plan that use it, and the options to fill it with.
        self._left = batch.capacity.tolist()
        self._holders: list[list[int]] = [[] for _ in self._left]
        self._fillers: list[list[int]] = [[] for _ in self._left]
        self._uses = [
            [(row, count) for row, count in zip(rows, counts, strict=True) if count]
            for rows, counts in zip(batch.rows.tolist(), batch.counts.tolist(), strict=True)
        ]
        self._chosen: set[int] = set()
        self.worth = 0.0
        for option in np.argsort(-batch.density, kind="stable").tolist():
            for row, _ in self._uses[option]:
                if len(self._fillers[row]) < _FILLERS:
                    self._fillers[row].append(option)
        for option in chosen.tolist():
            self._put(option)

    def anneal(self, rng: np.random.Generator, moves: int) -> Indices:
        """The options of the best plan met in so many moves."""
        hottest = _HOTTEST * float(np.median(self._batch.value[list(self._chosen)]))
        # Options to try: every second one uniformly at random, so that each has a chance, the others in proportion to their
        # value per device, which finds good plans sooner.
        density = np.maximum(self._batch.density, 0.0)
        uniform = rng.integers(self._batch.size, size=moves)
        by_density = rng.choice(self._batch.size, size=moves, p=density / density.sum())
        options = np.where(np.arange(moves) % 2, uniform, by_density).tolist()
        log_uniform = np.log(rng.random(moves)).tolist()
        best, best_worth = sorted(self._chosen), self.worth
        for move, option in enumerate(options):
            if option in self._chosen:
                continue
            before = self.worth
            out = self._in_the_way(option)
            for other in out:
                self._take(other)
            put = [option, *self._fill(option, out)]
            change = self.worth - before
            if change < 0 and log_uniform[move] * hottest * _COOLING ** (move / moves) > change:
                for other in put:
                    self._take(other)
                for other in out:
                    self._put(other)
                self.worth = before  # exactly, without the rounding errors of subtracting and adding
            # A relative margin, so that rounding errors do not count as progress.
            if self.worth > best_worth * (1 + 1e-12):
                best, best_worth = sorted(self._chosen), self.worth
        return np.array(best, dtype=np.intp)

    def _in_the_way(self, option: int) -> list[int]:
        """Options to take out so that this one fits: of those that use a resource that is short, the least valuable."""
        out: list[int] = []
        for row, count in self._uses[option]:
            missing = count - self._left[row] - sum(self._count(other, row) for other in out)
            for other in sorted(self._holders[row], key=self._value.__getitem__) if missing > 0 else ():
                if missing <= 0:
                    break
                if other not in out:
                    out.append(other)
                    missing -= self._count(other, row)
        return out

    def _fill(self, option: int, out: list[int]) -> list[int]:
        """Put the option in, then what fits into the resources that `out` has freed. Returns what was filled in."""
        self._put(option)
        filled = []
        for row in dict.fromkeys(row for other in out for row, _ in self._uses[other]):
            for filler in self._fillers[row] if self._left[row] > 0 else ():
                if all(self._left[used] >= count for used, count in self._uses[filler]):
                    self._put(filler)
                    filled.append(filler)
        return filled

    def _count(self, option: int, row: int) -> int:
        return next((count for used, count in self._uses[option] if used == row), 0)

    def _put(self, option: int) -> None:
        self._chosen.add(option)
        self.worth += self._value[option]
        for row, count in self._uses[option]:
            self._left[row] -= count
            self._holders[row].append(option)

    def _take(self, option: int) -> None:
        self._chosen.remove(option)
        self.worth -= self._value[option]
        for row, count in self._uses[option]:
            self._left[row] += count
            self._holders[row].remove(option)


SPEC = PolicySpec(
    "plans each pass by simulated annealing",
    partial(planner, solve_annealing),
    work_conserving=True,
    starvation_free=False,
)
