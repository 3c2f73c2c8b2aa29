"""Expected starts for the live view: estimated now and then beside the passes, and shown only where they help in planning.

An estimate is worked out for the first jobs of the queue and for one that would be submitted now. It is shown if it rests on
forecast durations alone, and if it is narrow enough to plan with. Until enough earlier estimates have been compared with the
starts that followed, all that are shown are marked as not checked. Calibration is kept in a file, since the record does not say
what was estimated: a restart goes on with it, a crash loses the last minute of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec

from gpuq.core.scheduling.cache import PassCache
from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.forecast_table import ForecastTable
from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.job import Job, JobId, KindId
from gpuq.core.state.state import State
from gpuq.home import write_private
from gpuq.messages.live import StartAccuracy
from gpuq.policies.estimates.calibration import StartEstimate
from gpuq.policies.estimates.estimator import EstimatorMemory, estimator_of
from gpuq.settings import Scheduling

log = logging.getLogger(__name__)

# Seconds between two estimates, and the share of the dispatcher's time that they may take.
_EVERY_S, _SHARE = 5.0, 0.05
_SAVE_EVERY_S = 60.0
_MINUTE_S = 60.0
# The first jobs of the queue get an estimate; those behind them wait long in any case.
_MOST = 300
_NEWCOMER = JobId(-2)
# Estimates are checked after so many starts whose estimates were made at different moments: a 90th percentile cannot be on fewer.
# One whose 90th percentile is more than so many times its median is no help in planning.
_STARTS_SEEN, _WIDEST = 9, 10.0

# Unix times of the median and of the 90th percentile.
Moments = tuple[float, float]


@dataclass(frozen=True, slots=True)
class _Saved:
    """The file. Calibration depends on the scheduling settings, so it says under which it was learned."""

    scheduling: dict[str, Any]
    learned: EstimatorMemory


class StartEstimates:
    """`jobs` and `newcomer` are the last estimates, shown or not; `order` has all waiting jobs, the first to start first.

    `file` keeps the calibration; with None it ends with the process. `state` is the state as it was restored.
    """

    def __init__(
        self, scheduling: Scheduling, clock: Callable[[], float], file: Path | None = None, state: State | None = None
    ) -> None:
        learned = _load(file, scheduling, state or State()) if file else EstimatorMemory()
        self._estimator = estimator_of(scheduling, learned)
        self._scheduling = scheduling
        self._clock = clock
        self._file = file
        self._saved = b""
        self._next_at = self._save_at = float("-inf")
        self._estimates: dict[JobId, StartEstimate] = {}
        self._estimated_at = 0.0
        self.jobs: dict[JobId, Moments] = {}
        self.newcomer: Moments | None = None
        self.order: list[JobId] = []

    @property
    def are_checked(self) -> bool:
        """Whether enough earlier estimates have been compared with the starts that followed."""
        return len(self._estimator.calibration.moments) >= _STARTS_SEEN

    def shown(self) -> tuple[dict[JobId, Moments], Moments | None]:
        """Those of `jobs` and `newcomer` that help in planning, as the module says."""
        shown = {job: moments for job, moments in self.jobs.items() if self._is_shown(job, moments)}
        newcomer = self.newcomer
        return shown, newcomer if newcomer and self._is_shown(_NEWCOMER, newcomer) else None

    def accuracy(self) -> StartAccuracy | None:
        """How the first estimates of the latest starts held; None where no start is known."""
        kept = self._estimator.calibration.kept
        halves, mosts = sum(one.before_half for one in kept), sum(one.before_most for one in kept)
        return StartAccuracy(len(kept), halves, mosts) if kept else None

    def _is_shown(self, job: JobId, moments: Moments) -> bool:
        p50_s, p90_s = (moment - self._estimated_at for moment in moments)
        return self._estimates[job].has_evidence and p90_s <= _WIDEST * max(p50_s, _MINUTE_S)

    def refresh(self, state: State, forecasts: ForecastTable, limits: Limits, now: float) -> None:
        """Estimate again if it is time. A fault here is logged: it must not stop scheduling."""
        if now < self._next_at:
            return
        started = self._clock()
        try:
            # A cache of its own: the passes and the estimator do not share conclusions.
            self._estimate(SchedulingContext(state, forecasts, PassCache(), limits, now))
        except Exception:
            log.exception(
                "starts could not be estimated; none are shown until the next try", extra={"action": "starts"}
            )
            self.jobs, self.newcomer, self.order = {}, None, []
        self._next_at = now + max(_EVERY_S, (self._clock() - started) / _SHARE)
        if now >= self._save_at:
            self._save_at = now + _SAVE_EVERY_S
            self._save()

    def _estimate(self, context: SchedulingContext) -> None:
        self._estimator.observe(context)
        waiting = self._estimator.in_order(context, context.waiting)
        first, now = waiting[:_MOST], context.now
        newcomer = Job(_NEWCOMER, KindId(""), "", "", now, since=now)
        found = self._estimator.estimate(context, [*first, newcomer])
        self._estimator.remember(first, found, now)
        moments = {job: (now + one.p50_s, now + one.p90_s) for job, one in found.items() if isfinite(one.p90_s)}
        last = moments.pop(_NEWCOMER, None)
        self.newcomer = last if len(waiting) <= _MOST else None
        # Those that a quota keeps from starting have no estimate, and stand behind the others.
        self.jobs, self.order = moments, [*(job.id for job in waiting), *_over_quota(context, waiting)]
        self._estimates, self._estimated_at = found, now

    def _save(self) -> None:
        if self._file is None:
            return
        saved = msgspec.json.encode(_Saved(asdict(self._scheduling), self._estimator.learned))
        if saved == self._saved:
            return
        try:
            write_private(self._file, saved, durable=False)
            self._saved = saved
        except OSError as error:
            log.warning("start-time calibration is not saved: %s", error, extra={"action": "starts"})


def _over_quota(context: SchedulingContext, waiting: list[Job]) -> list[JobId]:
    """The ids of the other waiting jobs."""
    estimated = {job.id for job in waiting}
    return [] if context.quotas.unlimited else [job for job in context.state.index.waiting if job not in estimated]


def _load(file: Path, scheduling: Scheduling, state: State) -> EstimatorMemory:
    """What was learned before a restart; nothing of a file that is missing, broken or older, or of other settings."""
    try:
        saved = msgspec.json.decode(file.read_bytes(), type=_Saved)
    except FileNotFoundError:
        return EstimatorMemory()
    except (OSError, msgspec.DecodeError) as error:
        log.warning("discarding start-time calibration: %s: %s", file.name, error, extra={"action": "starts"})
        return EstimatorMemory()
    if saved.scheduling != asdict(scheduling):
        log.info("discarding start-time calibration: settings changed", extra={"action": "starts"})
        return EstimatorMemory()
    jobs, memory = state.jobs, saved.learned.calibration
    # A job of the same number that was submitted later is another job: the record was restored from a backup.
    waiting = {job: one for job, one in memory.waiting.items() if job in jobs and jobs[job].submitted_at <= one.at}
    return replace(saved.learned, calibration=replace(memory, waiting=waiting))
