"""Predicted device-time of jobs, in device-seconds, for orders that need a job's size."""

from __future__ import annotations

from functools import cached_property
from itertools import repeat
from statistics import median

from gpuq.core.scheduling.admit import DeviceSnapshot
from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.state.attempt import Attempt, served_s
from gpuq.core.state.forecast import Forecast
from gpuq.core.state.job import Job


class Sizes:
    """The sizes of the jobs of one pass."""

    def __init__(self, context: SchedulingContext) -> None:
        self._context = context

    def remaining_or_median(self, job: Job) -> float:
        """Device-seconds left of a waiting job; without a forecast the median of all jobs that have one, 0 if none has."""
        remaining = self.remaining(job)
        return self._median if remaining is None else remaining

    def remaining(self, job: Job) -> float | None:
        """Device-seconds left of a waiting job; None without a forecast."""
        duration = self._context.cache.duration(job)
        if duration is None:
            return None
        p50, p90 = duration
        return _remaining(p50 * job.device_count, p90 * job.device_count, job.served_s)

    def remaining_of_attempt(self, attempt: Attempt) -> float | None:
        """Device-seconds left of a running job; None without a forecast."""
        job, forecast = self._context.state.jobs[attempt.id.job], attempt.forecast
        if forecast.duration_p50_s is None:
            return None
        p90 = forecast.duration_p50_s if forecast.duration_p90_s is None else forecast.duration_p90_s
        served = job.served_s + served_s(attempt, self._context.now)
        return _remaining(forecast.duration_p50_s * len(attempt.devices), p90 * len(attempt.devices), served)

    def remaining_of_attempt_or_median(self, attempt: Attempt) -> float:
        """The same; without a forecast the median of all jobs that have one, 0 if none has."""
        remaining = self.remaining_of_attempt(attempt)
        return self._median if remaining is None else remaining

    def ends_at(self, attempt: Attempt) -> float | None:
        """The time by which nine of ten such attempts have ended; None without a forecast.

        An attempt that runs past it is expected to run as long again as it has run so far: the longer a job has lasted, the
        longer it will probably last.
        """
        job, began, now = self._context.state.jobs[attempt.id.job], attempt.began_at, self._context.now
        left = _left_p90_s(attempt.forecast, job, len(attempt.devices))
        if left is None:
            return None
        return began + left if began + left > now else now + (now - began)

    def ends_if_started(self, job: Job, snapshot: DeviceSnapshot) -> float | None:
        """The same of a job that was given this device in this pass."""
        left = _left_p90_s(self._context.forecast(job, snapshot), job, job.device_count)
        return None if left is None else self._context.now + left

    @cached_property
    def _median(self) -> float:
        """Median over waiting and running jobs.

        Waiting jobs alone would be biased: under shortest-first the short ones never wait for long.
        """
        groups = self._context.groups
        waiting = (size for group in groups for size in repeat(self.remaining(group.head), len(group.jobs)))
        running = (
            None if a.forecast.duration_p50_s is None else a.forecast.duration_p50_s * len(a.devices)
            for a in self._context.state.attempts.values()
        )
        known = [size for size in (*waiting, *running) if size is not None]
        return median(known) if known else 0.0


def _left_p90_s(forecast: Forecast, job: Job, devices: int) -> float | None:
    """Seconds that an attempt with this forecast takes; None without one. A resumed job has done a part of its work before."""
    if forecast.duration_p90_s is None:
        return None
    return max(0.0, forecast.duration_p90_s - job.served_s / devices) * (forecast.expected_slowdown or 1.0)


def _remaining(p50: float, p90: float, served: float) -> float:
    """Device-seconds left of a job with these percentiles of its whole size after `served` device-seconds."""
    if served < p50:
        return p50 - served
    # Past its median it counts as one of the long jobs; past the 90th percentile it is expected to last as long again.
    return p90 - served if served < p90 else max(served, 1.0)
