"""How much device-time the jobs of one pass have left, by what is foretold of them."""

from __future__ import annotations

from functools import cached_property
from itertools import repeat
from statistics import median

from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.state.attempt import Attempt, served_s
from gpuq.core.state.job import Job


class Sizes:
    """Device-seconds, per job. What is foretold of one signature is worked out once in a pass."""

    def __init__(self, context: SchedulingContext) -> None:
        self._context = context
        self._sorts = list(context.device_classes)
        self._durations: dict[str, tuple[float, float] | None] = {}

    def left_or_middle(self, job: Job) -> float:
        """What the job has left; the middle of what is known of all, where nothing is known of it; 0 where of nobody."""
        left = self.left(job)
        return self._middle if left is None else left

    def left(self, job: Job) -> float | None:
        """What a waiting job has left; None if unknown."""
        duration = self.duration(job)
        if duration is None:
            return None
        likely, long = duration
        return _left(likely * job.device_count, long * job.device_count, job.served_s)

    def left_of(self, attempt: Attempt) -> float | None:
        """What a running job has left; None if unknown."""
        job, foretold = self._context.state.jobs[attempt.id.job], attempt.forecast
        if foretold.duration_p50_s is None:
            return None
        long = foretold.duration_p50_s if foretold.duration_p90_s is None else foretold.duration_p90_s
        served = job.served_s + served_s(attempt, self._context.now)
        return _left(foretold.duration_p50_s * len(attempt.devices), long * len(attempt.devices), served)

    def ends_at(self, attempt: Attempt) -> float | None:
        """When the attempt will most likely have ended: nine times in ten, by its forecast, if it was right; None if unknown.
        One that outlived that is taken to last as long again."""
        foretold, began = attempt.forecast.duration_p90_s, attempt.started_at or attempt.launched_at
        if foretold is None:
            return None
        slowdown = attempt.forecast.expected_slowdown or 1.0
        job = self._context.state.jobs[attempt.id.job]
        whole = foretold - job.served_s / len(attempt.devices)
        end = began + max(0.0, whole) * slowdown
        return end if end > self._context.now else self._context.now + (self._context.now - began)

    def duration(self, job: Job) -> tuple[float, float] | None:
        """(median, exceeded once in ten) seconds from start to end, the mean over the sorts of devices; None if unknown."""
        if job.signature not in self._durations:
            self._durations[job.signature] = self._foretold(job)
        return self._durations[job.signature]

    def _foretold(self, job: Job) -> tuple[float, float] | None:
        found = [self._context.forecast_alone(job, device) for device in self._sorts]
        known = [(f.duration_p50_s, f.duration_p90_s) for f in found if f.duration_p50_s is not None]
        if not known:
            return None
        likely = [p50 for p50, _ in known if p50 is not None]
        long = [p90 if p90 is not None else p50 for p50, p90 in known]
        return sum(likely) / len(known), sum(seconds or 0.0 for seconds in long) / len(known)

    @cached_property
    def _middle(self) -> float:
        """Over those who wait and those who run: the latter show what the short ones are like, which never wait for long."""
        groups = self._context.groups
        waiting = (left for group in groups for left in repeat(self.left(group.head), len(group.jobs)))
        running = (
            None if a.forecast.duration_p50_s is None else a.forecast.duration_p50_s * len(a.devices)
            for a in self._context.state.attempts.values()
        )
        known = [size for size in (*waiting, *running) if size is not None]
        return median(known) if known else 0.0


def _left(likely: float, long: float, served: float) -> float:
    """Device-seconds left of a job that takes `likely`, and more than `long` once in ten, after it `served`."""
    if served < likely:
        return likely - served
    # It outlived its forecast: then it is one of the long ones; beyond those, it lasts as long again.
    return long - served if served < long else max(served, 1.0)
