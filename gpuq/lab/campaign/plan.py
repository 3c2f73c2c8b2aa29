"""Chooses what a campaign measures next, from nothing but the list and the runs so far; pure.

A killed campaign therefore goes on where it was, and a list that has grown gets what it lacks. The order is: every job alone,
in the order of the list; then pairs; then again what is not known precisely enough, the widest interval first.

Of the pairs those come first whose jobs are in no pair yet, since without one a job's slowdowns are predicted from utilisation
alone. Among them the next is the one least like any pair measured so far (the greedy k-centre of Gonzalez 1985). Jobs are alike
if they have the same model or family and showed the same utilisation, memory and rate alone. A job beside itself is a pair too.
A job that failed alone is in no pair.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations_with_replacement
from typing import NamedTuple

from gpuq.lab.campaign.ledger import DISTURBED, MEASURED, MeasuredRun
from gpuq.lab.campaign.steady_state import Interval, interval, ratio_interval
from gpuq.lab.campaign.workload_list import WorkloadJob

MOST_DISTURBED = 3
_OTHER_MODEL = 0.5
_OTHER_FAMILY = 1.0
Item = tuple[str, ...]


@dataclass(frozen=True)
class Wanted:
    """`pairs`: how many, None for all. `repeats`: runs of one item at most. `tight`: the half-width that needs no further
    run.
    """

    pairs: int | None = None
    repeats: int = 3
    tight: float = 0.03
    retry_failed: bool = False


class Left(NamedTuple):
    """The runs still to be made, as far as known; `again` may grow with what is measured."""

    alone: int
    pairs: int
    again: int

    @property
    def all(self) -> int:
        """The number of all of them."""
        return sum(self)


class CampaignPlan:
    """What is left, given these runs, of which the first `before` are of earlier starts: what was disturbed then is tried
    again, and with `retry_failed` what failed too.
    """

    def __init__(
        self, jobs: Sequence[WorkloadJob], runs: Sequence[MeasuredRun], wanted: Wanted, before: int = 0
    ) -> None:
        self._jobs = {job.digest: job for job in jobs}
        self._wanted = wanted
        self._done: dict[Item, list[MeasuredRun]] = defaultdict(list)
        self._disturbed: Counter[Item] = Counter()
        for index, run in enumerate(runs):
            item = item_of(run.jobs)
            if not set(item) <= self._jobs.keys():
                continue
            if run.outcome == DISTURBED:
                self._disturbed[item] += index >= before
            elif run.outcome == MEASURED or index >= before or not wanted.retry_failed:
                self._done[item].append(run)
        self._order = {digest: index for index, digest in enumerate(self._jobs)}

    def next(self) -> tuple[WorkloadJob, ...] | None:
        """The jobs of the next run, one or two; None when all is done."""
        alone = self._unmeasured()
        item = alone[0] if alone else self._next_pair()
        if item is None:
            item = max(self._loose(), default=(0.0, None))[1]
        return None if item is None else tuple(self._jobs[digest] for digest in item)

    def left(self) -> Left:
        """The number of runs still to be made, by kind."""
        return Left(len(self._unmeasured()), self._pairs_left(), len(self._loose()))

    # --- alone ---

    def _unmeasured(self) -> list[Item]:
        return [(digest,) for digest in self._jobs if not self._settled((digest,))]

    def _settled(self, item: Item) -> bool:
        return bool(self._done.get(item)) or self._disturbed[item] >= MOST_DISTURBED

    # --- pairs ---

    def _measured_alone(self) -> list[str]:
        return [digest for digest in self._jobs if _measured(self._done.get((digest,), ()))]

    def _settled_pairs(self) -> list[Item]:
        return [item for item in self._done if len(item) == 2 and self._done[item]]

    def _pairs_left(self) -> int:
        """The number of pairs left, counting those of jobs that have not run alone yet."""
        able = len(self._measured_alone()) + len(self._unmeasured())
        there_are = able * (able + 1) // 2
        settled = len(self._settled_pairs())
        wanted = there_are if self._wanted.pairs is None else min(self._wanted.pairs, there_are)
        return max(0, wanted - settled)

    def _next_pair(self) -> Item | None:
        settled, pairs = self._settled_pairs(), combinations_with_replacement(self._measured_alone(), 2)
        candidates = [item for pair in pairs if not self._settled(item := item_of(pair))]
        if not candidates or (self._wanted.pairs is not None and len(settled) >= self._wanted.pairs):
            return None
        apart = self._distances()
        in_pairs: Counter[str] = Counter(digest for item in settled for digest in item)

        def worth(item: Item) -> tuple[int, float, int, int, int]:
            """Jobs that are in no pair; distance to the nearest measured pair; jobs in few pairs; the list's order."""
            new = len({digest for digest in item if not in_pairs[digest]})
            nearest = min((_apart(item, other, apart) for other in settled), default=apart(*item))
            first, second = sorted(self._order[digest] for digest in item)
            return new, round(nearest, 9), -in_pairs[item[0]] - in_pairs[item[1]], -first, -second

        return max(candidates, key=worth)

    def _distances(self) -> Callable[[str, str], float]:
        def shown(digest: str) -> tuple[float | None, ...]:
            """What was measured of a job alone; memory and rate as logarithms, so that ratios count alike."""
            part = _measured(self._done[digest,])[-1].parts[0]
            logs = (math.log(v) if v else None for v in (part.peak_memory_bytes, part.alone_rate))
            return (part.peak_utilization_pct, part.memory_utilization_pct, part.power_w, *logs)

        figures = {digest: shown(digest) for digest in self._measured_alone()}
        columns = list(zip(*figures.values(), strict=True))
        spans = [
            max(known) - min(known) if (known := [v for v in column if v is not None]) else 0.0 for column in columns
        ]

        @cache
        def apart(one: str, other: str) -> float:
            squares = (
                ((a - b) / span) ** 2
                for a, b, span in zip(figures[one], figures[other], spans, strict=True)
                if a is not None and b is not None and span > 0
            )
            a, b = self._jobs[one], self._jobs[other]
            of_family = _OTHER_MODEL if a.family and a.family == b.family else _OTHER_FAMILY
            return math.sqrt(math.fsum(squares)) + (0.0 if a.model == b.model else of_family)

        return apart

    # --- again ---

    def _loose(self) -> list[tuple[float, Item]]:
        """(half-width, item) of each item that is to be measured again."""
        found = []
        for item, runs in self._done.items():
            measured = _measured(runs)
            width = looseness(measured)
            tried = len(runs) + self._disturbed[item]
            if measured and tried < self._wanted.repeats and len(measured) == len(runs) and width > self._wanted.tight:
                found.append((width, item))
        return found


def item_of(jobs: Iterable[str]) -> Item:
    """The item of a run of these jobs, in any order."""
    return tuple(sorted(jobs))


def looseness(runs: Sequence[MeasuredRun]) -> float:
    """The 95% half-width of one item's rates or slowdowns over these runs, as a share; infinite where it is not known."""
    if not runs:
        return math.inf
    widths = [one.half_width for part in range(len(runs[0].parts)) if (one := _interval_of(runs, part))]
    return max((math.inf if width is None else width for width in widths), default=math.inf)


def _interval_of(runs: Sequence[MeasuredRun], index: int) -> Interval:
    """The interval of one job of an item: that of a single run itself, else that over the runs."""
    parts = [sorted(run.parts, key=lambda part: part.digest)[index] for run in runs]
    alone = len(runs[0].parts) == 1
    if len(parts) == 1:
        return Interval(1.0, parts[0].alone_half_width if alone else parts[0].slowdown_half_width, 1)
    if alone:
        return interval([part.alone_rate for part in parts if part.alone_rate])
    return ratio_interval([part.slowdown for part in parts if part.slowdown])


def _measured(runs: Iterable[MeasuredRun]) -> list[MeasuredRun]:
    return [run for run in runs if run.outcome == MEASURED]


def _apart(item: Item, other: Item, apart: Callable[[str, str], float]) -> float:
    """The distance of two pairs: the smaller one of the two ways to match their jobs."""
    (a, b), (c, d) = item, other
    return min(apart(a, c) + apart(b, d), apart(a, d) + apart(b, c))
