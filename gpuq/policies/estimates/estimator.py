"""When waiting jobs will start: the queue is replayed, and the result is multiplied by one learned factor.

`replay.py` plays the queue forward in the order of the policy: once with the median of what every job has left and once with its
90th percentile, both from `durations.py`. That all jobs are long at once is unlikely, so the second replay alone would say too
much; `calibration.py` learns from earlier starts by which factor. Devices that are reserved for a job go to others only after it,
those that a user has booked are free once the booking is over, and devices that take no job (their host is drained, or they are
unwell) go to none. A job waits for something that the replay does not know, so it has no estimate, if those before it use up its
quota or the limit of its array, or if the last pass refused it although the replay has devices for it at once.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.quotas import QuotaPass
from gpuq.core.state.attempt import Attempt, AttemptId
from gpuq.core.state.booking import Booking
from gpuq.core.state.device import Device
from gpuq.core.state.job import ACTIVE, WAITING, Job, JobId
from gpuq.core.state.verdict import Rule
from gpuq.policies.estimates.calibration import CalibrationMemory, StartCalibration, StartEstimate, calibrated
from gpuq.policies.estimates.durations import Duration, forecast_duration, typical_duration
from gpuq.policies.estimates.replay import DevicePool, Queued, Release, replay
from gpuq.policies.lists.order import tiers_of_owners
from gpuq.policies.lists.size import Sizes
from gpuq.settings import Scheduling

# Ended attempts that tell how long jobs without a forecast last.
_LOOK_BACK = 300


@dataclass(frozen=True, slots=True)
class EstimatorMemory:
    """What an estimator keeps for after a restart: the seconds that ended attempts lasted, and its calibration."""

    ended_s: list[float] = field(default_factory=list)
    calibration: CalibrationMemory = field(default_factory=CalibrationMemory)


class _Holder(NamedTuple):
    """A running attempt that keeps devices busy. `reserved_for`: the job for which they are kept after it."""

    pool: DevicePool
    devices: int
    reserved_for: JobId | None
    booked: tuple[Booking, ...]
    duration: Duration | None
    age_s: float

    def left_s(self, typical: Duration, share: float, now: float) -> float:
        """Seconds until the devices are free, at this share of what such attempts have left; `typical` where nothing is known."""
        return _free_s(self.booked, (self.duration or typical).left_s(self.age_s, share), now)


class StartTimeEstimator:
    """`overtaking`, `skips` and `floods_last` describe the policy: a job counts as submitted so many times its device-time later,
    one that does not fit now is passed by, and owners who flood the queue come last."""

    def __init__(
        self,
        *,
        overtaking: float = 0.0,
        skips: bool = True,
        floods_last: bool = False,
        learned: EstimatorMemory | None = None,
    ) -> None:
        learned = learned or EstimatorMemory()
        self._overtaking, self._skips, self._floods_last = overtaking, skips, floods_last
        self._ended_s = deque(learned.ended_s, maxlen=_LOOK_BACK)
        self.calibration = StartCalibration(learned.calibration)
        self._running: dict[AttemptId, Attempt] = {}

    @property
    def learned(self) -> EstimatorMemory:
        """What to keep for after a restart."""
        return EstimatorMemory(list(self._ended_s), self.calibration.memory)

    def observe(self, context: SchedulingContext) -> None:
        """Take in what has started and ended since the last call. It is cheap, and meant for every pass."""
        jobs, now = context.state.jobs, context.now
        for job_id in self.calibration.waiting:
            job = jobs.get(job_id)
            if job is not None and job.attempt:
                self.calibration.started(job_id, job.since if job.state in ACTIVE else now)
            elif job is None or job.state not in WAITING:
                self.calibration.dropped(job_id)
        for name in sorted(self._running.keys() - context.state.attempts.keys()):
            # A job that waits again was stopped: how long it would have lasted is not known.
            if name.job not in jobs or jobs[name.job].state not in WAITING:
                self._ended_s.append(now - self._running[name].began_at)
        self._running = dict(context.state.attempts)

    def in_order(self, context: SchedulingContext, jobs: Iterable[Job]) -> list[Job]:
        """The jobs, the first to start first; of equal ones the first of the sequence."""
        sizes, overtaking = Sizes(context), self._overtaking
        tiers = tiers_of_owners(context)[0] if self._floods_last else {}

        def rank(job: Job) -> tuple[float, ...]:
            delay_s = overtaking * sizes.remaining_or_median(job) if overtaking else 0.0
            return (tiers.get(job.owner, 0), -job.priority, job.waits_since + delay_s)

        return sorted(jobs, key=rank)

    def estimate(self, context: SchedulingContext, jobs: Iterable[Job]) -> dict[JobId, StartEstimate]:
        """Estimates for these jobs, as if only they waited. The same context gives the same estimates."""
        reserved, now = context.overdue_reservations, context.now
        queue = [job for job in self.in_order(context, jobs) if job.id not in reserved]
        # Jobs with a reservation go before all others.
        ordered = [*(context.state.jobs[job] for job in reserved), *queue]
        constraints = dict.fromkeys(job.constraints for job in ordered if job.constraints)
        numbers = {one: number for number, one in enumerate(constraints)}

        def pool_of(device: Device) -> DevicePool:
            met = (number for one, number in numbers.items() if device.id in context.cache.allowed(one))
            return DevicePool(device.host, tuple(met))

        holders, (free, booked) = _holders(context, pool_of), _free(context, pool_of)
        typical = typical_duration(self._ended_s, (holder.age_s for holder in holders))
        forecasts = [_forecast(context, job) for job in ordered]
        over_quota = _over_quota(context, ordered)
        replays: list[dict[JobId, float]] = []
        for share in (0.5, 0.9):
            lasts_s = {
                job.id: (forecast or typical).left_s(0.0, share)
                for job, forecast in zip(ordered, forecasts, strict=True)
            }
            ends = [(holder, holder.left_s(typical, share, now)) for holder in holders]
            starts = dict.fromkeys(lasts_s, inf)
            releases = [Release(left_s, one.pool, one.devices) for one, left_s in ends if one.reserved_for is None]
            for first, reservation in reserved.items():
                # Nothing else may have the reserved devices before that job has started and ended.
                starts[first] = max((left_s for holder, left_s in ends if holder.reserved_for == first), default=0.0)
                pools = Counter(pool_of(context.state.devices[device]) for device in reservation.devices)
                releases += [Release(starts[first] + lasts_s[first], pool, count) for pool, count in pools.items()]
            played = [one for one in queue if one.id not in over_quota]
            numbered = (numbers[one.constraints] if one.constraints else None for one in played)
            line = [Queued(j.per_host, lasts_s[j.id], j.host_count, n) for j, n in zip(played, numbered, strict=True)]
            found = replay(free, [*releases, *booked], line, skips=self._skips)
            starts |= {one.id: start for one, start in zip(played, found, strict=True)}
            replays.append(starts)
        factor, known = self.calibration.factor(context.now), all(holder.duration for holder in holders)
        estimates = {}
        for job, forecast in zip(ordered, forecasts, strict=True):
            p50_s, p90_s = (starts[job.id] for starts in replays)
            if p50_s == 0.0 and job.id in context.state.verdicts:
                p50_s = p90_s = inf
            # With skipping, longer jobs can let a small one start sooner.
            estimates[job.id] = calibrated(min(p50_s, p90_s), p90_s, factor, has_evidence=known)
            known = known and forecast is not None
        return estimates

    def remember(self, jobs: Iterable[Job], estimates: Mapping[JobId, StartEstimate], now: float) -> None:
        """These jobs have these estimates: later ones learn from when they start. Only a job's first estimate counts."""
        for job in jobs:
            if not job.attempt:
                self.calibration.promise(job.id, estimates[job.id], now)


def estimator_of(scheduling: Scheduling, learned: EstimatorMemory | None = None) -> StartTimeEstimator:
    """The estimator for the policy of these settings."""
    by_size = scheduling.policy == "shortest" or (scheduling.policy == "packed" and scheduling.order == "shortest")
    strict = scheduling.policy == "fifo" or (scheduling.policy == "packed" and scheduling.backfill == "strict")
    # Ageing of priorities, fair shares and deadlines are not modelled.
    overtaking = scheduling.overtaking if by_size else 0.0
    floods_last = scheduling.policy == "packed" and scheduling.order == "shortest"
    return StartTimeEstimator(overtaking=overtaking, skips=not strict, floods_last=floods_last, learned=learned)


def _free(
    context: SchedulingContext, pool_of: Callable[[Device], DevicePool]
) -> tuple[dict[DevicePool, int], list[Release]]:
    """How many devices are free now, and those that will be when a booking is over."""
    free, later = Counter[DevicePool](), Counter[tuple[float, DevicePool]]()
    for snapshot in context.snapshots:
        device = snapshot.device
        busy = snapshot.residents or snapshot.unusable is not None or snapshot.reserved_for is not None
        if not busy and not context.given(device.id):
            free_s = _free_s(context.cache.device_index.booked.get(device.id, ()), 0.0, context.now)
            later[free_s, pool_of(device)] += 1
    free.update({pool: count for (free_s, pool), count in later.items() if free_s == 0.0})
    return free, [Release(free_s, pool, count) for (free_s, pool), count in later.items() if free_s > 0.0]


def _free_s(bookings: Iterable[Booking], left_s: float, now: float) -> float:
    """Seconds until devices are free that their residents leave in `left_s`: bookings that begin by then keep them longer."""
    for booking in bookings:
        if booking.from_at <= now + left_s:
            left_s = max(left_s, booking.until_at - now)
    return left_s


def _over_quota(context: SchedulingContext, ordered: Iterable[Job]) -> set[JobId]:
    """The jobs that a quota or the limit of an array keeps waiting once those before them have started."""
    quotas, found = QuotaPass(context.state, context.now), set[JobId]()
    if quotas.unlimited:
        return found
    for job in ordered:
        if quotas.refusal(job) is None:
            quotas.give(job, job.device_count)
        else:
            found.add(job.id)
    return found


def _holders(context: SchedulingContext, pool_of: Callable[[Device], DevicePool]) -> list[_Holder]:
    """Of the residents of a shared device, the one that is expected to stay longest: until then the device is not idle.

    Those of devices that take no job are left out, since another gets nothing by their end. A silent host is expected back.
    """

    def expected_end(attempt: Attempt) -> float:
        p50_s = attempt.forecast.duration_p50_s
        return inf if p50_s is None else max(context.now, attempt.began_at + p50_s)

    devices: Counter[tuple[Attempt, DevicePool, JobId | None, tuple[Booking, ...]]] = Counter()
    for snapshot in context.snapshots:
        if snapshot.residents and snapshot.unusable in (None, Rule.STALE_READING):
            last, booked = max(snapshot.residents, key=expected_end), context.cache.device_index.booked
            bookings = tuple(booked.get(snapshot.device.id, ()))
            devices[last, pool_of(snapshot.device), snapshot.reserved_for, bookings] += 1
    found = []
    context.ask_alone(context.state.jobs[attempt.id.job] for attempt, *_ in devices)
    for (attempt, pool, reserved_for, bookings), count in devices.items():
        # What is forecast of its job now, else what was when it was launched.
        launch = forecast_duration(attempt.forecast.duration_p50_s, attempt.forecast.duration_p90_s)
        duration = _forecast(context, context.state.jobs[attempt.id.job]) or launch
        age_s = max(0.0, context.now - attempt.began_at)
        found.append(_Holder(pool, count, reserved_for, bookings, duration, age_s))
    return found


def _forecast(context: SchedulingContext, job: Job) -> Duration | None:
    """On the first class of the devices that it may have of which there is a forecast."""
    forecasts = (context.forecast_alone(job, device) for device in context.classes_for(job))
    durations = (forecast_duration(found.duration_p50_s, found.duration_p90_s) for found in forecasts)
    return next((duration for duration in durations if duration is not None), None)
