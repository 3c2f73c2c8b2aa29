"""The randomised greedy of ANDREAS (Filippini et al. 2021, arXiv 2105.05080): which job, where, and on how many devices.

Arrives: works with the ways in which each can be done, and when the devices of each host come free. Leaves: a plan with
its cost. Pure: chance is passed in. Ours, where the paper's abstract leaves it open: the orders that are tried, that a later
start on a better device is weighed against an earlier one on a worse, and that lateness is expected rather than certain.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from gpuq.core.state.device import HostId
from gpuq.core.state.job import Job

# Constructions tried in one pass; fewer where many jobs wait for many hosts, so that a pass stays within its time.
CONSTRUCTIONS = 16
_STEPS = 60_000
# A construction takes the cheapest way this often, else the next one in cost, and so on.
_GREED = 0.85
# How far a random order strays from its rule, in places of the queue: the mean of an exponential.
_STRAY = 2.0
# So many scales from the due time the end is as good as certain: e^-40 of a scale is left of the rest.
_CERTAIN = 40.0
# The look-ahead of the ATC rule, in mean durations; 2 is the usual middle of what Vepsalainen and Morton (1987) tried.
_LOOK_AHEAD = 2.0


@dataclass(frozen=True, slots=True)
class Configuration:
    """One way to do a job: on `count` devices of one host of this type. `energy_cost` is money; `spread_s` is the scale of the
    error in its end, that of a logistic distribution."""

    device_type: str
    count: int
    duration_s: float
    energy_cost: float
    spread_s: float


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A waiting job. `late_cost_per_s` is money for each second after `due_at`. `aged` says that it waited too long: it goes
    first, and takes the earliest end there is."""

    job: Job
    due_at: float
    late_cost_per_s: float
    ways: tuple[Configuration, ...]
    aged: bool = False


@dataclass(frozen=True, slots=True)
class HostTimeline:
    """A host: the moments at which its devices come free, rising, one for each."""

    host: HostId
    device_type: str
    free_at: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class PlannedStart:
    """A work of the plan, with how, where and when, and what it is expected to cost."""

    work: WaitingJob
    way: Configuration
    host: HostId
    at: float
    cost: float


@dataclass(frozen=True, slots=True)
class TimedPlan:
    """Starts in the order in which they were chosen; works that no host can take are left out of all plans alike."""

    starts: tuple[PlannedStart, ...]
    cost: float


def plan(works: Sequence[WaitingJob], rooms: Sequence[HostTimeline], now: float, chance: Random) -> TimedPlan:
    """The cheapest of several constructions; the first ones follow their rules strictly, so it is never dearer than these."""
    if not works:
        return TimedPlan((), 0.0)
    orders = [_by_pressure(works, now), _by_worth(works, now)]
    tries = max(len(orders), min(CONSTRUCTIONS, _STEPS // (len(works) * len(rooms) or 1)))
    best = min((construct(order, rooms, now) for order in orders), key=lambda found: found.cost)
    for number in range(tries - len(orders)):
        found = construct(_stray(orders[number % len(orders)], chance), rooms, now, chance)
        if found.cost < best.cost:
            best = found
    return best


def construct(
    works: Sequence[WaitingJob], rooms: Sequence[HostTimeline], now: float, chance: Random | None = None
) -> TimedPlan:
    """Each work in turn takes the cheapest way that is left to it; with `chance`, at times the second cheapest or a later one."""
    hosts = _Hosts(rooms, now)
    starts = []
    for work in works:
        found = [start for way in work.ways if (start := hosts.earliest(work, way)) is not None]
        if not found:
            continue
        found.sort(key=_soonest if work.aged else _cheapest)
        pick = 0
        while chance is not None and not work.aged and pick + 1 < len(found) and chance.random() > _GREED:
            pick += 1
        hosts.take(found[pick])
        starts.append(found[pick])
    return TimedPlan(tuple(starts), sum(start.cost for start in starts))


def expected_lateness_s(late_s: float, spread_s: float) -> float:
    """The mean of max(0, X), where X is logistic around `late_s` with the scale `spread_s`: spread x ln(1 + e^(late / spread)).

    Far from the due time it is the plain lateness; near it, coming sooner is worth something, since the end is not certain.
    """
    if abs(late_s) >= _CERTAIN * spread_s:
        return max(0.0, late_s)
    ratio = late_s / spread_s
    return spread_s * (max(0.0, ratio) + math.log1p(math.exp(-abs(ratio))))


class _Hosts:
    """When devices come free, as works are given to them."""

    def __init__(self, rooms: Sequence[HostTimeline], now: float) -> None:
        self._now = now
        self._free = {capacity.host: list(capacity.free_at) for capacity in rooms}
        self._of_type: dict[str, list[HostId]] = {}
        for capacity in rooms:
            self._of_type.setdefault(capacity.device_type, []).append(capacity.host)
        self._gaps: dict[HostId, list[float]] = {}

    def earliest(self, work: WaitingJob, way: Configuration) -> PlannedStart | None:
        """The first start on any host of the type; of equally early ones that on the fullest host."""
        best: tuple[float, int] | None = None
        where = None
        for host in self._of_type.get(way.device_type, ()):
            free = self._free[host]
            if len(free) < way.count:
                continue
            at = self._now if self._fits_gap(host, way) else max(self._now, free[way.count - 1])
            key = (at, bisect_right(free, at))
            if best is None or key < best:
                best, where = key, host
        if best is None or where is None:
            return None
        late = best[0] + way.duration_s - work.due_at
        cost = way.energy_cost + work.late_cost_per_s * expected_lateness_s(late, way.spread_s)
        return PlannedStart(work, way, where, best[0], cost)

    def take(self, start: PlannedStart) -> None:
        """Devices that wait for others of a gang stay open until then, for works that are done by then."""
        host, count = start.host, start.way.count
        gaps = self._gaps.setdefault(host, [])
        if start.at <= self._now and self._fits_gap(host, start.way):
            for until in sorted(gaps)[-count:]:
                gaps.remove(until)
            return
        free = self._free[host]
        if start.at > self._now:
            gaps.extend([start.at] * min(count, bisect_right(free, self._now)))
        free[:count] = [start.at + start.way.duration_s] * count
        free.sort()

    def _fits_gap(self, host: HostId, way: Configuration) -> bool:
        gaps = self._gaps.get(host)
        return bool(gaps) and sum(until >= self._now + way.duration_s for until in gaps) >= way.count  # type: ignore[union-attr]


def _cheapest(start: PlannedStart) -> tuple[float, float]:
    return (start.cost, start.at + start.way.duration_s)


def _soonest(start: PlannedStart) -> tuple[float, float]:
    return (start.at + start.way.duration_s, start.cost)


def _shortest(work: WaitingJob) -> float:
    return min(way.duration_s for way in work.ways)


def _by_pressure(works: Sequence[WaitingJob], now: float) -> list[WaitingJob]:
    """The paper's: the least time between the earliest possible end and the deadline first."""
    return sorted(works, key=lambda work: (not work.aged, work.due_at - now - _shortest(work), work.job.id))


def _by_worth(works: Sequence[WaitingJob], now: float) -> list[WaitingJob]:
    """The most lateness saved for each device-second first, discounted while there is slack: the ATC rule."""
    ahead = _LOOK_AHEAD * sum(map(_shortest, works)) / len(works)

    def worth(work: WaitingJob) -> float:
        slack = max(0.0, work.due_at - now - _shortest(work))
        device_s = min(way.duration_s * way.count for way in work.ways)
        return work.late_cost_per_s / max(device_s, 1e-9) * math.exp(-slack / max(ahead, 1e-9))

    return sorted(works, key=lambda work: (not work.aged, -worth(work), work.job.id))


def _stray(works: Sequence[WaitingJob], chance: Random) -> list[WaitingJob]:
    snapshots = {work.job.id: snapshot + chance.expovariate(1 / _STRAY) for snapshot, work in enumerate(works)}
    return sorted(works, key=lambda work: (not work.aged, snapshots[work.job.id]))
