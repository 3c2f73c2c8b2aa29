"""When those who wait will probably start, worked out now and then beside the passes, for the live view.

Arrives: the state and the answers of a pass. Leaves: for each waiting job two moments, and two for one that came now; a moment
that nobody can foretell is left out. What earlier starts taught is nowhere in the record, so it is kept in a file, and after a
restart taken up from there; a crash loses the last minute of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec

from gpuq.core.scheduling.cache import PassCache
from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.forecast import Forecasts
from gpuq.core.state.index import device_class
from gpuq.core.state.job import Job, JobId, KindId
from gpuq.core.state.state import State
from gpuq.home import write_private
from gpuq.policies.estimates.calibration import Lateness
from gpuq.policies.estimates.estimator import Memory, Teller
from gpuq.policies.estimates.waiting import ExpectedStart
from gpuq.settings import Scheduling

log = logging.getLogger(__name__)

# Seconds between two looks, and the share of the time that they may take.
_EVERY_S, _SHARE = 5.0, 0.05
_KEEP_EVERY_S = 60.0
_A_MINUTE_S = 60.0
# Who is foretold a start: so many, the first to go; those behind them wait long, however long that is.
_MOST = 300
_NEWCOMER = JobId(-2)
# An estimate is shown once so many starts, told at different moments, have corrected it (a 90th percentile cannot be checked on
# fewer), and only while its 90th percentile is at most so many times its median: a wider one is no help in planning.
_STARTS_SEEN, _WIDEST = 9, 10.0

Moments = tuple[float, float]


@dataclass(frozen=True, slots=True)
class _Kept:
    """What the file holds. How late starts are depends on the settings, so it says under which this was learnt."""

    scheduling: dict[str, Any]
    memory: Memory


class Starts:
    """`jobs` and `newcomer` are unix times: the median and the 90th percentile, as last worked out; `order` has all who wait, the
    first to start first. `file` keeps what was learnt; with None it ends with the process. `state` is as it was rebuilt from the
    record."""

    def __init__(
        self, scheduling: Scheduling, clock: Callable[[], float], file: Path | None = None, state: State | None = None
    ) -> None:
        by_size = scheduling.policy == "shortest" or (scheduling.policy == "packed" and scheduling.order == "shortest")
        strict = scheduling.policy == "fifo" or (scheduling.policy == "packed" and scheduling.backfill == "strict")
        known = _known(file, scheduling, state or State()) if file else Memory()
        self._teller = Teller(overtaking=scheduling.overtaking if by_size else 0.0, skips=not strict, known=known)
        self._scheduling = scheduling
        self._clock = clock
        self._file = file
        self._kept = b""
        self._next_at = self._keep_at = float("-inf")
        self.jobs: dict[JobId, Moments] = {}
        self.newcomer: Moments | None = None
        self.order: list[JobId] = []
        self._founded: set[JobId] = set()
        self._looked_at = 0.0

    def calibrated(self) -> tuple[dict[JobId, Moments], Moments | None]:
        """Those of `jobs` and `newcomer` that are fit to be shown: corrected by enough earlier starts, resting on forecast
        durations of all who run and all who go before, and not too wide to be of use."""
        if len(self._teller.moments_seen()) < _STARTS_SEEN:
            return {}, None
        shown = {job: found for job, found in self.jobs.items() if job in self._founded and self._is_narrow(found)}
        newcomer = self.newcomer if self.newcomer and _NEWCOMER in self._founded else None
        return shown, newcomer if newcomer and self._is_narrow(newcomer) else None

    def _is_narrow(self, moments: Moments) -> bool:
        p50_s, p90_s = (moment - self._looked_at for moment in moments)
        return p90_s <= _WIDEST * max(p50_s, _A_MINUTE_S)

    def refresh(self, state: State, forecasts: Forecasts, limits: Limits, now: float) -> None:
        """Look again where it is time. A fault here is logged: it must hurt no job."""
        if now < self._next_at:
            return
        started = self._clock()
        try:
            # A cache of its own: what it concludes is not known to the passes, nor theirs to it.
            self._look(SchedulingContext(state, forecasts, PassCache(), limits, now))
        except Exception:
            log.exception("expected starts", extra={"action": "starts"})
            self.jobs, self.newcomer, self.order = {}, None, []
        self._next_at = now + max(_EVERY_S, (self._clock() - started) / _SHARE)
        if now >= self._keep_at:
            self._keep_at = now + _KEEP_EVERY_S
            self._keep()

    def _look(self, context: SchedulingContext) -> None:
        self._teller.watch(context)
        everyone = self._teller.in_order(context)
        first = everyone[:_MOST]
        newcomer = Job(_NEWCOMER, KindId(""), "", "", context.now, since=context.now)
        found = self._teller.among(context, [*first, newcomer])
        for job in first:
            self._teller.remember(context, job)
        self.newcomer = _moments(found.pop(_NEWCOMER), context.now) if len(first) < _MOST else None
        self.order, self._looked_at = [job.id for job in everyone], context.now
        self._founded = _founded(context, [*first, newcomer])
        self.jobs = {job: moments for job, start in found.items() if (moments := _moments(start, context.now))}

    def _keep(self) -> None:
        if self._file is None:
            return
        learnt = msgspec.json.encode(_Kept(asdict(self._scheduling), self._teller.learnt))
        if learnt == self._kept:
            return
        try:
            write_private(self._file, learnt, durable=False)
            self._kept = learnt
        except OSError as error:
            log.warning("what starts taught is not kept: %s", error, extra={"action": "starts"})


def _known(file: Path, scheduling: Scheduling, state: State) -> Memory:
    """What was learnt before a restart: nothing where that cannot be read, or was learnt under other settings."""
    try:
        kept = msgspec.json.decode(file.read_bytes(), type=_Kept)
    except FileNotFoundError:
        return Memory()
    except (OSError, msgspec.DecodeError) as error:
        log.warning("what starts taught is learnt anew, %s: %s", file.name, error, extra={"action": "starts"})
        return Memory()
    if kept.scheduling != asdict(scheduling):
        log.info("what starts taught is learnt anew: it was under other settings", extra={"action": "starts"})
        return Memory()
    single, gang = (_of_these(late, state) for late in (kept.memory.single, kept.memory.gang))
    return replace(kept.memory, single=single, gang=gang)


def _of_these(late: Lateness, state: State) -> Lateness:
    """Only who still is there. One of that number who came later is another: the record was put back from a backup."""
    jobs = state.jobs
    there = {job: told for job, told in late.waiting.items() if job in jobs and jobs[job].submitted_at <= told.at}
    return replace(late, waiting=there)


def _founded(context: SchedulingContext, ordered: Sequence[Job]) -> set[JobId]:
    """Those of `ordered`, the first to go first, before whom only jobs run or wait whose durations are forecast."""
    if any(attempt.forecast.duration_p50_s is None for attempt in context.state.attempts.values()):
        return set()
    devices = list({device_class(snapshot.device): snapshot.device for snapshot in context.snapshots}.values())
    found = set()
    for job in ordered:
        found.add(job.id)
        if all(context.forecast_alone(job, device).duration_p50_s is None for device in devices):
            break
    return found


def _moments(start: ExpectedStart, now: float) -> Moments | None:
    return (now + start.p50_s, now + start.p90_s) if isfinite(start.p90_s) else None
