"""Simulated annealing over plans (Kirkpatrick, Gelatt and Vecchi, Science 220, 1983).

A move puts one option into the plan, takes out whatever is in its way, and fills what that freed. It is made when the plan gets
better by it, or with probability exp(change / temperature) when it gets worse. The temperature falls geometrically over a fixed
number of moves, so that the same batch gives the same plan on any machine. Starts from the greedy plan and ends with the best
that was met.
"""

from __future__ import annotations

import numpy as np

from gpuq.core.scheduling.policy import Policy
from gpuq.policies.planners.batch import Batch, Indices
from gpuq.policies.planners.plan import SEED, Plan, better, complete, greedy, planner
from gpuq.policies.spec import PolicySpec
from gpuq.settings import Scheduling

_MOVES = 4_000
_MOVES_PER_OPTION = 20
# What is freed is filled from so many options of each job and seat, those worth most per device.
_FILLERS = 24
# The first temperature is this share of the median of what the plan's options are worth; the last a thousandth of that.
_HOTTEST = 0.3
_COOLING = 1e-3


def solve_annealing(batch: Batch, seed: int = SEED, moves: int = _MOVES) -> Plan:
    """The best plan met; no worse than the greedy one."""
    start = greedy(batch)
    if not len(start.chosen):
        return start
    moves = min(moves, _MOVES_PER_OPTION * batch.size)
    best = _Walk(batch, start.chosen).anneal(np.random.default_rng(seed), moves)
    return better(start, Plan(batch, complete(batch, best)))


class _Walk:
    """A plan on its way; plain lists, since a move touches a handful of numbers."""

    def __init__(self, batch: Batch, chosen: Indices) -> None:
        self._batch = batch
        self._value = batch.value.tolist()
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
        options = self._drawn(rng, moves)
        dice = np.log(rng.random(moves)).tolist()
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
            if change < 0 and dice[move] * hottest * _COOLING ** (move / moves) > change:
                for other in put:
                    self._take(other)
                for other in out:
                    self._put(other)
                self.worth = before
            if self.worth > best_worth * (1 + 1e-12):
                best, best_worth = sorted(self._chosen), self.worth
        return np.array(best, dtype=np.intp)

    def _drawn(self, rng: np.random.Generator, moves: int) -> list[int]:
        """Options to try: every second by chance alike, the others by what they are worth per device."""
        density = np.maximum(self._batch.density, 0.0)
        alike = rng.integers(self._batch.size, size=moves)
        valued = rng.choice(self._batch.size, size=moves, p=density / density.sum())
        drawn: list[int] = np.where(np.arange(moves) % 2, alike, valued).tolist()
        return drawn

    def _in_the_way(self, option: int) -> list[int]:
        """What has to go before the option fits: of those that hold a room that lacks, the ones worth least."""
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
        """Puts the option in, then what finds room in what those that are out have freed; leaves what it filled in."""
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


def _make(scheduling: Scheduling) -> Policy:
    return planner(solve_annealing, scheduling)


SPEC = PolicySpec("plans each pass by simulated annealing", _make, work_conserving=True, starvation_free=False)
