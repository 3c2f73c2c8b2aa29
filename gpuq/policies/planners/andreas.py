"""ANDREAS: the least cost of energy and lateness, over device types and counts (Filippini et al. 2021, arXiv 2105.05080).

Looks at forecasts only: how long and at what power a job runs alone on each type, and how much faster on more devices.
Every pass plans all that waits afresh (`andreas_plan`) and starts what the plan starts now. Ignores sharing: each job has its
devices to itself. A job may be kept waiting beside an idle device where a better one is worth it, so it is not work
conserving; a job that has waited far too long goes first, so nobody starves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean, median

from gpuq.core.scheduling.admit import DeviceSnapshot
from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.policy import Policy, Proposal
from gpuq.core.state.attempt import Attempt
from gpuq.core.state.device import Device, HostId
from gpuq.core.state.forecast import Forecast
from gpuq.core.state.index import device_class
from gpuq.core.state.job import Job
from gpuq.core.state.verdict import Numbers, Rule, Verdict
from gpuq.policies.planners.andreas_plan import Configuration, HostTimeline, PlannedStart, TimedPlan, WaitingJob, plan
from gpuq.policies.spec import PolicySpec
from gpuq.settings import Scheduling

# Waiting jobs that one plan looks at, the first to be due; the others are looked at as these start.
_PLANNED = 96
# A job that is this many times the limits' patience past its deadline, or its submission if it has none, goes first.
_AGED = 10.0
# Each step of priority doubles what lateness costs, up to this many steps.
_STEPS = 10
# The error of an end foretold without a spread, as a share of the duration: the scale of a logistic distribution.
_SPREAD = 0.1
# The 90th percentile of a logistic distribution lies ln 9 scales above the median.
_LN_9 = 2.1972
# What a job is taken to need while nothing is known of any: all alike, so that the first come goes first.
_UNKNOWN_S = 3600.0
_J_PER_KWH = 3.6e6


@dataclass(frozen=True, slots=True)
class Prices:
    """`energy` is money per kWh, `late` money for an hour of lateness of a job of priority 0."""

    energy: float
    late: float

    def energy_cost(self, watts: float, seconds: float) -> float:
        """Of so many watts for so long."""
        return self.energy * watts * seconds / _J_PER_KWH

    def late_cost_per_s(self, priority: int) -> float:
        """Of a second of lateness; each step of priority doubles it."""
        return float(self.late * 2.0 ** max(-_STEPS, min(_STEPS, priority)) / 3600.0)


class Andreas:
    """The policy, at some prices. The same board gives the same proposals."""

    def __init__(self, prices: Prices) -> None:
        self._prices = prices

    def __call__(self, context: SchedulingContext) -> Iterator[Proposal]:
        """What the cheapest plan starts now, in the plan's order."""
        idle = _idle(context)
        if not idle or not context.waiting:
            return
        for start in self._plan(context, idle).starts:
            if start.at <= context.now:
                yield from _propose(context, start, idle)
            elif any(way.count <= len(idle) for way in start.work.ways):
                context.defer(start.work.job, _postponed(start, context.now))

    def _plan(self, context: SchedulingContext, idle: Sequence[DeviceSnapshot]) -> TimedPlan:
        works = sorted(self.works(context), key=lambda work: (not work.aged, work.due_at, work.job.id))[:_PLANNED]
        return plan(works, _rooms(context, idle), context.now, Random(f"{context.now}"))  # noqa: S311 - a search

    def works(self, context: SchedulingContext) -> list[WaitingJob]:
        """Every waiting job with its ways. A job without a deadline is due as soon as it could have been done."""
        devices = {device_class(snapshot.device): snapshot.device for snapshot in context.snapshots}
        forecasts = {
            job.id: [(device, context.forecast_alone(job, device)) for device in devices.values()]
            for job in context.waiting
        }
        known = [f.duration_p50_s for found in forecasts.values() for _, f in found if f.duration_p50_s is not None]
        usual_s = median(known) if known else _UNKNOWN_S
        works = []
        for job in context.waiting:
            ways = _ways(job, forecasts[job.id], usual_s, self._prices)
            shortest = min((way.duration_s for way in ways), default=0.0)
            due = job.submitted_at + shortest if job.deadline_at is None else job.deadline_at
            aged = context.now - max(job.deadline_at or 0.0, job.submitted_at) > _AGED * context.limits.patience_s
            works.append(WaitingJob(job, due, self._prices.late_cost_per_s(job.priority), ways, aged))
        return works


def _ways(
    job: Job, forecasts: Sequence[tuple[Device, Forecast]], usual_s: float, prices: Prices
) -> tuple[Configuration, ...]:
    """On each type with each count that is known to help. A duration that is not known is that of the types where it is, or the
    usual one; a power likewise, and where none is known energy costs nothing, so that time alone decides."""
    durations = [f.duration_p50_s for _, f in forecasts if f.duration_p50_s is not None]
    powers = [f.power_w for _, f in forecasts if f.power_w is not None]
    ways = []
    for device, forecast in forecasts:
        p50 = forecast.duration_p50_s if forecast.duration_p50_s is not None else max(durations, default=usual_s)
        watts = forecast.power_w if forecast.power_w is not None else (fmean(powers) if powers else 0.0)
        p90 = forecast.duration_p90_s or p50
        for count, faster in _counts(job, forecast):
            seconds = p50 / faster
            spread = max(_SPREAD * seconds, (p90 - p50) / faster / _LN_9)
            ways.append(Configuration(device.type, count, seconds, prices.energy_cost(count * watts, seconds), spread))
    return tuple(ways)


def _counts(job: Job, forecast: Forecast) -> Iterator[tuple[int, float]]:
    """(devices, times faster than on as many as the job asks for), without those that do not help."""
    speedups = dict(forecast.speedups)
    asked = speedups.get(job.device_count)
    yield job.device_count, 1.0
    best = 1.0
    for count in job.counts[1:]:
        faster = speedups[count] / asked if asked and count in speedups else 0.0
        if faster > best:
            best = faster
            yield count, faster


def _idle(context: SchedulingContext) -> list[DeviceSnapshot]:
    return [
        snapshot
        for snapshot in context.snapshots
        if not snapshot.residents and snapshot.reading and not snapshot.reserved
    ]


def _rooms(context: SchedulingContext, idle: Sequence[DeviceSnapshot]) -> list[HostTimeline]:
    """Hosts with devices of one type each; what cannot be read is not there."""
    free = {snapshot.device.id: context.now for snapshot in idle}
    times: dict[tuple[HostId, str], list[float]] = {}
    for snapshot in context.snapshots:
        if snapshot.reading is None:
            continue
        ends = [_end(context, attempt) for attempt in snapshot.residents]
        at = free.get(snapshot.device.id, max(ends, default=context.now))
        times.setdefault((snapshot.device.host, snapshot.device.type), []).append(at)
    return [HostTimeline(host, kind, tuple(sorted(found))) for (host, kind), found in times.items()]


def _end(context: SchedulingContext, attempt: Attempt) -> float:
    """When it is expected to end. One that is over its time is taken to need as long again as it is over: the longer it goes
    on, the less anybody waits for it."""
    job = context.state.jobs[attempt.id.job]
    begun = attempt.launched_at if attempt.started_at is None else attempt.started_at
    expected = begun + expected_s(job, attempt)
    return max(expected, context.now + max(1.0, context.now - expected))


def expected_s(job: Job, attempt: Attempt) -> float:
    """How long the attempt takes on the devices it has, as foretold at its start; the usual where nothing was."""
    p50 = attempt.forecast.duration_p50_s
    if p50 is None:
        return _UNKNOWN_S
    speedups = dict(attempt.forecast.speedups)
    asked, now = speedups.get(job.device_count), speedups.get(len(attempt.devices))
    return p50 * asked / now if asked and now else p50


def _propose(context: SchedulingContext, start: PlannedStart, idle: Sequence[DeviceSnapshot]) -> Iterator[Proposal]:
    """The planned devices; where admission refuses them, the other choices that the job has."""
    job = start.work.job
    here = [
        snapshot.device
        for snapshot in idle
        if snapshot.device.host == start.host
        and snapshot.device.type == start.way.device_type
        and not context.given(snapshot.device.id)
    ]
    if len(here) >= start.way.count:
        yield Proposal(job, tuple(here[: start.way.count]))
        if context.placed(job):
            return
        for snapshots in context.choices(job):
            yield Proposal(job, tuple(snapshot.device for snapshot in snapshots))
            if context.placed(job):
                return


def _postponed(start: PlannedStart, now: float) -> Verdict:
    numbers: Numbers = (
        ("device_type", start.way.device_type),
        ("devices", start.way.count),
        ("expected_start_s", start.at - now),
        ("expected_cost", start.cost),
    )
    return Verdict(False, Rule.POSTPONED, None, numbers)


def _make(scheduling: Scheduling) -> Policy:
    return Andreas(Prices(scheduling.energy_price_per_kwh, scheduling.late_price_per_hour))


SPEC = PolicySpec("the least cost of energy and lateness, over GPU types and counts", _make)
