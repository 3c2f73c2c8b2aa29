"""ANDREAS: minimises the cost of energy and lateness over device types and counts (Filippini et al. 2021, arXiv 2105.05080).

It uses the forecasts of a job alone: duration and power on each device type, and the speed-up on more devices. Each pass plans
all waiting jobs again (`andreas_plan.py`) and starts those that the plan starts now.

Jobs share no devices. The policy is not work conserving: a job may wait beside an idle device for a cheaper one. A job that has
waited far too long goes first, so no job starves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean, median

from gpuq.core.scheduling.admit import DeviceSnapshot
from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.policy import Proposal
from gpuq.core.state.attempt import Attempt
from gpuq.core.state.device import Device, HostId
from gpuq.core.state.forecast import Forecast
from gpuq.core.state.index import device_class
from gpuq.core.state.job import Job
from gpuq.core.state.verdict import Numbers, Rule, Verdict
from gpuq.policies.lists.placement import try_each
from gpuq.policies.planners.andreas_plan import (
    Configuration,
    HostTimeline,
    PlannedStart,
    WaitingJob,
    randomized_greedy,
)
from gpuq.policies.spec import PolicySpec

# Waiting jobs in one plan, those that are due first. The others are planned once these have started.
_PLANNED = 96
# A job goes first when it is this many times `patience_s` past its deadline, or past its submission if it has none.
_AGED = 10.0
# Each step of priority doubles the cost of lateness, up to this many steps.
_STEPS = 10
# The least scale of the logistic error of a duration, as a share of the duration: forecasts without a spread are not exact.
_SPREAD = 0.1
# The 90th percentile of a logistic distribution lies ln 9 scales above the median.
_LN_9 = 2.1972
# The duration of every job while none is forecast: all equal, so that the first submitted goes first.
_UNKNOWN_S = 3600.0
_J_PER_KWH = 3.6e6


@dataclass(frozen=True, slots=True)
class Prices:
    """`energy` is money per kWh, `late` is money per hour of lateness of a job of priority 0."""

    energy: float
    late: float

    def energy_cost(self, watts: float, seconds: float) -> float:
        """Money for this power over this time."""
        return self.energy * watts * seconds / _J_PER_KWH

    def late_cost_per_s(self, priority: int) -> float:
        """Money per second of lateness; each step of priority doubles it."""
        return float(self.late * 2.0 ** max(-_STEPS, min(_STEPS, priority)) / 3600.0)


class Andreas:
    """The policy at these prices. It keeps no state, and its random generator is seeded by the context's time."""

    def __init__(self, prices: Prices) -> None:
        self._prices = prices

    def __call__(self, context: SchedulingContext) -> Iterator[Proposal]:
        """The starts that the cheapest plan makes now, in the plan's order."""
        idle = [s for s in context.snapshots if not s.residents and s.reading and s.reserved_for is None]
        if not idle or not context.waiting:
            return
        # Its plans are for single hosts and any device of a type, so those over several hosts and choosy ones go first.
        for job in [job for job in context.waiting if not _is_planned(job)]:
            yield from try_each(context, job, context.choices(job))
        jobs = sorted(self.waiting_jobs(context), key=lambda w: (not w.aged, w.due_at, w.job.id))[:_PLANNED]
        rng = Random(f"{context.now}")  # noqa: S311 - a search, not a secret
        for start in randomized_greedy(jobs, _timelines(context, idle), context.now, rng).starts:
            if start.at <= context.now:
                yield from _propose(context, start, idle)
            elif any(c.count <= len(idle) for c in start.waiting_job.configurations):
                numbers: Numbers = (
                    ("device_type", start.configuration.device_type),
                    ("devices", start.configuration.count),
                    ("expected_start_s", start.at - context.now),
                    ("expected_cost", start.cost),
                )
                context.defer(start.waiting_job.job, Verdict(False, Rule.POSTPONED, None, numbers))

    def waiting_jobs(self, context: SchedulingContext) -> list[WaitingJob]:
        """Every waiting job with its configurations.

        A job without a deadline is due as soon as it could have ended: then each second of waiting costs.
        """
        devices = {device_class(snapshot.device): snapshot.device for snapshot in context.snapshots}
        forecasts = {
            job.id: [(device, context.forecast_alone(job, device)) for device in devices.values()]
            for job in context.waiting
            if _is_planned(job)
        }
        known = [f.duration_p50_s for of_job in forecasts.values() for _, f in of_job if f.duration_p50_s is not None]
        usual_s = median(known) if known else _UNKNOWN_S
        waiting_jobs = []
        for job in (job for job in context.waiting if job.id in forecasts):
            configurations = _configurations(job, forecasts[job.id], usual_s, self._prices)
            shortest = min((configuration.duration_s for configuration in configurations), default=0.0)
            due = job.submitted_at + shortest if job.deadline_at is None else job.deadline_at
            aged = context.now - max(job.deadline_at or 0.0, job.submitted_at) > _AGED * context.limits.patience_s
            late_cost = self._prices.late_cost_per_s(job.priority)
            waiting_jobs.append(WaitingJob(job, due, late_cost, configurations, aged))
        return waiting_jobs


def _is_planned(job: Job) -> bool:
    return job.host_count == 1 and job.constraints is None


def _configurations(
    job: Job, forecasts: Sequence[tuple[Device, Forecast]], usual_s: float, prices: Prices
) -> tuple[Configuration, ...]:
    """The job on each device type with each count that makes it faster.

    An unknown duration is the longest known one of other types, else `usual_s`. An unknown power is the mean of other types;
    where none is known energy costs nothing, so that time alone decides.
    """
    durations = [f.duration_p50_s for _, f in forecasts if f.duration_p50_s is not None]
    powers = [f.power_w for _, f in forecasts if f.power_w is not None]
    configurations = []
    for device, forecast in forecasts:
        p50 = forecast.duration_p50_s if forecast.duration_p50_s is not None else max(durations, default=usual_s)
        watts = forecast.power_w if forecast.power_w is not None else (fmean(powers) if powers else 0.0)
        p90 = forecast.duration_p90_s or p50
        for count, speedup in _counts(job, forecast):
            seconds = p50 / speedup
            spread = max(_SPREAD * seconds, (p90 - p50) / speedup / _LN_9)
            energy_cost = prices.energy_cost(count * watts, seconds)
            configurations.append(Configuration(device.type, count, seconds, energy_cost, spread))
    return tuple(configurations)


def _counts(job: Job, forecast: Forecast) -> Iterator[tuple[int, float]]:
    """(devices, speed-up over the count that the job asks for), without larger counts that are no faster."""
    speedups = dict(forecast.speedups)
    asked = speedups.get(job.device_count)
    yield job.device_count, 1.0
    best = 1.0
    for count in job.counts[1:]:
        speedup = speedups[count] / asked if asked and count in speedups else 0.0
        if speedup > best:
            best = speedup
            yield count, speedup


def _timelines(context: SchedulingContext, idle: Sequence[DeviceSnapshot]) -> list[HostTimeline]:
    """One timeline per host and device type. Devices without a current reading are left out."""
    free = {snapshot.device.id: context.now for snapshot in idle}
    times: dict[tuple[HostId, str], list[float]] = {}
    for snapshot in context.snapshots:
        if snapshot.reading is None:
            continue
        ends = [_end(context, attempt) for attempt in snapshot.residents]
        at = free.get(snapshot.device.id, max(ends, default=context.now))
        times.setdefault((snapshot.device.host, snapshot.device.type), []).append(at)
    return [HostTimeline(host, type_, tuple(sorted(free_at))) for (host, type_), free_at in times.items()]


def _end(context: SchedulingContext, attempt: Attempt) -> float:
    """The expected end of a running attempt, by the forecast at its start for the devices that it has.

    One that has exceeded its forecast by some time is expected to need as much time again: the longer it is overdue, the less a
    plan should count on its devices.
    """
    duration_s = attempt.forecast.duration_p50_s
    if duration_s is None:
        duration_s = _UNKNOWN_S
    else:
        speedups = dict(attempt.forecast.speedups)
        asked = speedups.get(context.state.jobs[attempt.id.job].device_count)
        now = speedups.get(len(attempt.devices))
        duration_s = duration_s * asked / now if asked and now else duration_s
    began = attempt.began_at
    expected = began + duration_s
    return max(expected, context.now + max(1.0, context.now - expected))


def _propose(context: SchedulingContext, start: PlannedStart, idle: Sequence[DeviceSnapshot]) -> Iterator[Proposal]:
    """The planned devices, and if admission refuses them the job's other choices."""
    job, configuration = start.waiting_job.job, start.configuration
    here = [
        snapshot.device
        for snapshot in idle
        if snapshot.device.host == start.host
        and snapshot.device.type == configuration.device_type
        and not context.given(snapshot.device.id)
    ]
    if len(here) >= configuration.count:
        yield Proposal(job, tuple(here[: configuration.count]))
        if not context.placed(job):
            yield from try_each(context, job, context.choices(job))


SPEC = PolicySpec(
    "the least cost of energy and lateness, over GPU types and counts",
    lambda scheduling: Andreas(Prices(scheduling.energy_price_per_kwh, scheduling.late_price_per_hour)),
)
