"""Has a job waited so long that devices, or what is left of a quota, are kept for it? And for how long will it need them?"""

from __future__ import annotations

from gpuq.core.scheduling.cache import PassCache
from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.job import Job


def is_beyond_patience(job: Job, cache: PassCache, limits: Limits, now: float) -> bool:
    """Whether the job has waited beyond its patience."""
    waited_s = now - job.waits_since
    return waited_s > limits.patience_s and waited_s > own_patience_s(job, cache, limits)


def own_patience_s(job: Job, cache: PassCache, limits: Limits) -> float:
    """`patience_s`, or several times its own device-time where that is shortest, of the classes of devices that it may have: a
    job that will hold devices for long may wait for long."""
    forecasts = (cache.forecast_alone(job, device) for device in cache.classes_for(job))
    shortest_s = min((f.duration_p50_s for f in forecasts if f.duration_p50_s is not None), default=0.0)
    return max(limits.patience_s, limits.patience_ratio * job.device_count * shortest_s)


def longest_s(job: Job, cache: PassCache) -> float | None:
    """Within how many seconds nine of ten such jobs have ended where they take longest, of the classes of devices that they may
    have, and none runs beyond its time limit; None where nothing is known."""
    forecasts = (cache.forecast_alone(job, device) for device in cache.classes_for(job))
    percentiles = (f.duration_p50_s if f.duration_p90_s is None else f.duration_p90_s for f in forecasts)
    known = max((seconds for seconds in percentiles if seconds is not None), default=None)
    return min((seconds for seconds in (known, job.time_limit_s) if seconds is not None), default=None)
