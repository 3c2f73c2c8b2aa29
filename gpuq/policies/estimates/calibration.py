"""One factor on start-time estimates, learned from how earlier ones held.

A replay leaves much out: sharing, failures, jobs that are yet to come. So each start is compared with the replay's 90th
percentile for it, and estimates are multiplied by the quantile of those ratios that would have made nine of ten hold (split
conformal prediction: Papadopoulos et al. 2002). Jobs estimated at one moment stood before the same queue and are late together:
a hundred of them say little more than one, and weigh as much as one. Pure; the time is passed in.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import fsum, isfinite
from typing import NamedTuple

from gpuq.core.state.job import JobId

# Starts that are looked back on: enough for a 90th percentile, few enough to follow the traffic of a site.
_LOOK_BACK = 300
# Ratios before any start is known, as if so many had been seen: with these alone the factor is 1.
_PRIOR = (0.16, 0.25, 0.35, 0.42, 0.5, 0.5, 0.6, 0.75, 1.0, 1.5)
_HOLDS = 0.9
# Ratios are of waits plus a minute: below a minute a ratio means nothing to anyone.
_MINUTE_S = 60.0
# Weights are thirds and the like: what their sum may be off.
_ROUNDING = 1e-9


class StartEstimate(NamedTuple):
    """Seconds from now until a job starts: the median and the 90th percentile, infinite for a job that cannot start.

    `replayed_p90_s` is the latter before calibration. `has_evidence`: the durations of all jobs that run, and of all that go
    before this one, are forecast.
    """

    p50_s: float
    p90_s: float
    replayed_p90_s: float
    has_evidence: bool


@dataclass(frozen=True, slots=True)
class Promise:
    """What was estimated of a waiting job at a moment. The calibrated percentiles are None in files of earlier versions."""

    at: float
    replayed_p90_s: float
    p50_s: float | None = None
    p90_s: float | None = None


class WaitRatio(NamedTuple):
    """A wait over its replayed 90th percentile. `at` is when that was estimated; None for a prior one."""

    at: float | None
    value: float


class KeptPromise(NamedTuple):
    """Whether a job started before the calibrated median of its first estimate, and before its 90th percentile."""

    before_half: bool
    before_most: bool


@dataclass(frozen=True, slots=True)
class CalibrationMemory:
    """All that a `StartCalibration` has learned, to go on with after a restart. `kept`: of the latest starts."""

    waiting: dict[JobId, Promise] = field(default_factory=dict)
    ratios: list[WaitRatio] = field(default_factory=lambda: [WaitRatio(None, value) for value in _PRIOR])
    kept: list[KeptPromise] = field(default_factory=list)


class StartCalibration:
    """Learns from starts. `memory` is that of an earlier one."""

    def __init__(self, memory: CalibrationMemory | None = None) -> None:
        memory = memory or CalibrationMemory()
        self._waiting = dict(memory.waiting)
        self._ratios = deque(memory.ratios, maxlen=_LOOK_BACK)
        self._kept = deque(memory.kept, maxlen=_LOOK_BACK)

    @property
    def memory(self) -> CalibrationMemory:
        """What to keep for after a restart."""
        return CalibrationMemory(dict(self._waiting), list(self._ratios), list(self._kept))

    @property
    def waiting(self) -> Sequence[JobId]:
        """Jobs with an estimate that have not started."""
        return list(self._waiting)

    @property
    def moments(self) -> set[float]:
        """When those estimates were made whose jobs have started since."""
        return {ratio.at for ratio in self._ratios if ratio.at is not None}

    @property
    def kept(self) -> Sequence[KeptPromise]:
        """Whether the estimates of the latest starts held, oldest first."""
        return list(self._kept)

    def promise(self, job: JobId, estimate: StartEstimate, now: float) -> None:
        """This was estimated of a waiting job. Only its first estimate counts, and none that is infinite."""
        if isfinite(estimate.replayed_p90_s):
            self._waiting.setdefault(job, Promise(now, estimate.replayed_p90_s, estimate.p50_s, estimate.p90_s))

    def started(self, job: JobId, now: float) -> None:
        """A job with an estimate started: later estimates learn from it."""
        promise = self._waiting.pop(job)
        self._ratios.append(_ratio(promise, now))
        if promise.p50_s is not None and promise.p90_s is not None:
            waited_s = max(0.0, now - promise.at)
            self._kept.append(KeptPromise(waited_s <= promise.p50_s, waited_s <= promise.p90_s))

    def dropped(self, job: JobId) -> None:
        """A job with an estimate will not start: nothing is learned."""
        del self._waiting[job]

    def factor(self, now: float) -> float:
        """What estimates are multiplied with: the weighted 90th percentile of past ratios.

        A job that still waits counts as soon as its ratio is beyond that of the others: a queue that stands still has no starts
        to learn from.
        """
        waiting = [_ratio(promise, now) for promise in self._waiting.values()]
        together = Counter(ratio.at for ratio in (*waiting, *self._ratios))
        together[None] = 1
        past = [(ratio.value, 1 / together[ratio.at]) for ratio in self._ratios]
        least = _quantile(past)
        late = [(ratio.value, 1 / together[ratio.at]) for ratio in waiting if ratio.value > least]
        return _quantile([*past, *late])


def calibrated(p50_s: float, p90_s: float, factor: float, *, has_evidence: bool) -> StartEstimate:
    """The percentiles of a replay, times the factor."""
    half_s, most_s = (max(0.0, factor * (seconds + _MINUTE_S) - _MINUTE_S) for seconds in (p50_s, p90_s))
    return StartEstimate(half_s, most_s, p90_s, has_evidence)


def _ratio(promise: Promise, now: float) -> WaitRatio:
    # A promise in the future was saved before the wall clock was set back.
    waited_s = max(0.0, now - promise.at)
    return WaitRatio(promise.at, (waited_s + _MINUTE_S) / (promise.replayed_p90_s + _MINUTE_S))


def _quantile(ratios: Sequence[tuple[float, float]]) -> float:
    """The 90th percentile of pairs (ratio, weight): the smallest ratio that nine tenths of the weight do not exceed."""
    left = _HOLDS * fsum(weight for _, weight in ratios) - _ROUNDING
    for ratio, weight in sorted(ratios):
        left -= weight
        if left <= 0:
            return ratio
    return max(ratios)[0]
