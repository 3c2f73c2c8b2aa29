"""The randomised greedy algorithm of ANDREAS (Filippini et al. 2021, arXiv 2105.05080).

For waiting jobs j it chooses a configuration c (device type and count), a host h and a start time s so that

    minimise    sum over j of  energy_cost(c) + late_cost_per_s(j) * E[max(0, s + duration(c) - due_at(j))]

where no device does two jobs at a time. Costs are money, times are seconds.

Where the paper's abstract leaves details open, these are ours: the two orders in which jobs are tried, that a later start on a
cheaper device is weighed against an earlier one on another, and that lateness is an expectation, since the end is uncertain.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from gpuq.core.state.device import HostId
from gpuq.core.state.job import Job

# Plans constructed in one pass; fewer where many jobs wait for many hosts, so that a pass stays within a policy's time limit.
CONSTRUCTIONS = 16
_STEPS = 60_000
# The probability that a job takes the cheapest of the configurations that it has not passed over.
_GREED = 0.85
# How far a random order departs from its rule, in positions of the queue: the mean of an exponential distribution.
_STRAY = 2.0
# Beyond so many scales from the due time, the logistic distribution's expected lateness equals the plain one to e^-40 of a scale.
_CERTAIN = 40.0
# The look-ahead parameter of the ATC rule, in mean durations. 2 lies in the middle of what Vepsalainen and Morton (1987) tried.
_LOOK_AHEAD = 2.0


@dataclass(frozen=True, slots=True)
class Configuration:
    """A job on `count` devices of one host of this type. `energy_cost` is money. `spread_s` is the scale of the logistic
    distribution of the error of `duration_s`."""

    device_type: str
    count: int
    duration_s: float
    energy_cost: float
    spread_s: float


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """`late_cost_per_s` is money per second after `due_at`. An `aged` job has waited too long: it is planned before the others
    and takes the configuration with the earliest end."""

    job: Job
    due_at: float
    late_cost_per_s: float
    configurations: tuple[Configuration, ...]
    aged: bool = False

    @property
    def shortest_s(self) -> float:
        """The duration in its fastest configuration."""
        return min(configuration.duration_s for configuration in self.configurations)


@dataclass(frozen=True, slots=True)
class HostTimeline:
    """A host and the times at which its devices become free, ascending, one for each device."""

    host: HostId
    device_type: str
    free_at: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class PlannedStart:
    """A job of the plan: its configuration, host and start time, and its expected cost (money)."""

    waiting_job: WaitingJob
    configuration: Configuration
    host: HostId
    at: float
    cost: float

    @property
    def end(self) -> float:
        """When it is expected to end."""
        return self.at + self.configuration.duration_s


@dataclass(frozen=True, slots=True)
class TimedPlan:
    """Starts in the order in which they were chosen, and their total cost. Jobs that fit no host are in no plan."""

    starts: tuple[PlannedStart, ...]
    cost: float


def randomized_greedy(
    waiting_jobs: Sequence[WaitingJob], hosts: Sequence[HostTimeline], now: float, rng: Random
) -> TimedPlan:
    """The cheapest of several constructed plans.

    The first constructions follow the two orders without randomness, so the result is never more expensive than those.
    """
    if not waiting_jobs:
        return TimedPlan((), 0.0)
    orders = [_by_pressure(waiting_jobs, now), _by_saved_cost(waiting_jobs, now)]
    tries = max(len(orders), min(CONSTRUCTIONS, _STEPS // (len(waiting_jobs) * len(hosts) or 1)))
    best = min((construct(order, hosts, now) for order in orders), key=lambda plan: plan.cost)
    for number in range(tries - len(orders)):
        order = orders[number % len(orders)]
        rank = {waiting.job.id: position + rng.expovariate(1 / _STRAY) for position, waiting in enumerate(order)}
        shuffled = sorted(order, key=lambda waiting: (not waiting.aged, rank[waiting.job.id]))
        plan = construct(shuffled, hosts, now, rng)
        if plan.cost < best.cost:
            best = plan
    return best


def construct(
    waiting_jobs: Sequence[WaitingJob], hosts: Sequence[HostTimeline], now: float, rng: Random | None = None
) -> TimedPlan:
    """The plan in which each job in turn takes the cheapest start left to it; with `rng`, sometimes the next one in cost."""
    schedule = _Schedule(hosts, now)
    starts = []
    for waiting in waiting_jobs:
        possible = [start for c in waiting.configurations if (start := schedule.earliest(waiting, c)) is not None]
        if not possible:
            continue
        possible.sort(key=lambda start: (start.end, start.cost) if start.waiting_job.aged else (start.cost, start.end))
        pick = 0
        while rng is not None and not waiting.aged and pick + 1 < len(possible) and rng.random() > _GREED:
            pick += 1
        schedule.take(possible[pick])
        starts.append(possible[pick])
    return TimedPlan(tuple(starts), sum(start.cost for start in starts))


def expected_lateness_s(late_s: float, spread_s: float) -> float:
    """The mean of max(0, X) for X logistic with mean `late_s` and scale `spread_s`: spread * ln(1 + exp(late / spread)).

    Far from the due time it is the plain lateness. Near it, an earlier end is worth something even if the job is expected to be
    in time, since the end is uncertain.
    """
    if abs(late_s) >= _CERTAIN * spread_s:
        return max(0.0, late_s)
    ratio = late_s / spread_s
    # ln(1 + e^r) = max(0, r) + ln(1 + e^-|r|), which does not overflow.
    return spread_s * (max(0.0, ratio) + math.log1p(math.exp(-abs(ratio))))


class _Schedule:
    """When the devices of each host become free, given the starts that were taken.

    A gang that waits for its last device leaves the others idle until then. These gaps are kept apart from `_free`: a job that
    ends within a gap may start now without delaying the gang.
    """

    def __init__(self, hosts: Sequence[HostTimeline], now: float) -> None:
        self._now = now
        self._free = {timeline.host: list(timeline.free_at) for timeline in hosts}
        self._of_type: dict[str, list[HostId]] = {}
        for timeline in hosts:
            self._of_type.setdefault(timeline.device_type, []).append(timeline.host)
        self._gaps: dict[HostId, list[float]] = {}

    def earliest(self, waiting: WaitingJob, configuration: Configuration) -> PlannedStart | None:
        """The earliest start on any host of the type; None if no host has enough devices.

        Among equally early ones, on the host with the fewest free devices, so that others stay whole for gangs.
        """
        best: tuple[float, int] | None = None
        where = None
        for host in self._of_type.get(configuration.device_type, ()):
            free = self._free[host]
            if len(free) < configuration.count:
                continue
            in_gap = self._fits_gap(host, configuration)
            at = self._now if in_gap else max(self._now, free[configuration.count - 1])
            key = (at, bisect_right(free, at))
            if best is None or key < best:
                best, where = key, host
        if best is None or where is None:
            return None
        late_s = best[0] + configuration.duration_s - waiting.due_at
        late_cost = waiting.late_cost_per_s * expected_lateness_s(late_s, configuration.spread_s)
        return PlannedStart(waiting, configuration, where, best[0], configuration.energy_cost + late_cost)

    def take(self, start: PlannedStart) -> None:
        """Occupy the devices of the start: those of gaps, if it fits there, else those that become free first."""
        host, count = start.host, start.configuration.count
        gaps = self._gaps.setdefault(host, [])
        if start.at <= self._now and self._fits_gap(host, start.configuration):
            for until in sorted(gaps)[-count:]:
                gaps.remove(until)
            return
        free = self._free[host]
        if start.at > self._now:
            gaps.extend([start.at] * min(count, bisect_right(free, self._now)))
        free[:count] = [start.at + start.configuration.duration_s] * count
        free.sort()

    def _fits_gap(self, host: HostId, configuration: Configuration) -> bool:
        end = self._now + configuration.duration_s
        return sum(until >= end for until in self._gaps.get(host, ())) >= configuration.count


def _by_pressure(waiting_jobs: Sequence[WaitingJob], now: float) -> list[WaitingJob]:
    """The paper's order: the least time between the earliest possible end and the deadline first."""
    return sorted(waiting_jobs, key=lambda w: (not w.aged, w.due_at - now - w.shortest_s, w.job.id))


def _by_saved_cost(waiting_jobs: Sequence[WaitingJob], now: float) -> list[WaitingJob]:
    """Apparent tardiness cost, ATC (Vepsalainen and Morton, Management Science 33, 1987): the highest late cost per device-second
    first, discounted by exp(-slack / look-ahead)."""
    ahead_s = _LOOK_AHEAD * sum(waiting.shortest_s for waiting in waiting_jobs) / len(waiting_jobs)

    def index(waiting: WaitingJob) -> float:
        slack_s = max(0.0, waiting.due_at - now - waiting.shortest_s)
        device_s = min(c.duration_s * c.count for c in waiting.configurations)
        return waiting.late_cost_per_s / max(device_s, 1e-9) * math.exp(-slack_s / max(ahead_s, 1e-9))

    return sorted(waiting_jobs, key=lambda waiting: (not waiting.aged, -index(waiting), waiting.job.id))
