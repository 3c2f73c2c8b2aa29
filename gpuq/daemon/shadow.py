"""Shadow mode: gpuq runs every job alone, and records for each job the first time that admission would have let it join another.

After each pass the waiting jobs are judged with the usual `admit`, under the limits that would be in force if sharing were on.
Nothing here starts or delays a job.

The recorded chances are a lower estimate. After a job would have joined a device, no other may join it until the first would
have ended. A job that had its chance would have run by then, so it is no partner when it really runs. Jobs that would start
earlier because another ended earlier are left out (`gpuq simulate` plays that), and so are jobs that want several devices.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import inf

from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.row_types import Chance
from gpuq.core.scheduling.admit import DeviceSnapshot
from gpuq.core.scheduling.cache import PassCache
from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.forecast_table import Answer, ForecastTable
from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.attempt import Attempt, AttemptId
from gpuq.core.state.forecast import Forecast
from gpuq.core.state.index import SchedulingClass, scheduling_class
from gpuq.core.state.job import Job, JobId
from gpuq.core.state.state import State

_ALL = 1_000_000


def exclusively(limits: Limits) -> Limits:
    """The limits of a gpuq that shares nothing."""
    return replace(limits, residents_per_device=1)


class Shadow:
    """Remembers which jobs had a chance and which attempts they would have joined. `limits` would apply if sharing were on."""

    def __init__(self, limits: Limits, answer: Answer, known: Iterable[Chance] = ()) -> None:
        # All devices are tried: the best few may already be taken by jobs that would have joined them.
        self._limits = replace(limits, candidates_per_job=_ALL)
        self._cache = PassCache()
        self._forecasts = ForecastTable(answer)
        self._had: set[JobId] = set()
        self._taken_until: dict[AttemptId, float] = {}
        for chance in known:
            self._remember(chance)

    @classmethod
    def of(cls, limits: Limits, answer: Answer, store: Store, state: State) -> Shadow:
        """As it was before a restart, from the record. Blocks."""
        # A chance cannot be older than its job.
        oldest = min((job.submitted_at for job in state.jobs.values()), default=inf)
        return cls(limits, answer, store.chances(since=oldest) if state.jobs else ())

    def look(self, state: State, now: float) -> list[Chance]:
        """The chances that jobs have for the first time now, the most urgent job first."""
        self._had = {job for job in self._had if job in state.jobs}
        self._taken_until = {a: until for a, until in self._taken_until.items() if a in state.attempts}
        may_join = [job for job in state.index.waiting.values() if job.device_count == 1 and job.id not in self._had]
        # Without either, no pair is possible, and no forecast need be asked for.
        if not may_join or not any(self._may_be_joined(attempt, now) for attempt in state.attempts.values()):
            return []
        context = SchedulingContext(state, self._forecasts, self._cache, self._limits, now)
        found: list[Chance] = []
        refused: set[SchedulingClass] = set()
        for job in sorted(may_join, key=lambda job: (-job.priority, job.submitted_at, job.id)):
            # Jobs of one class get the same verdicts, so where one has no chance, no other has.
            if scheduling_class(job) not in refused and (chance := self._first(context, job)) is not None:
                self._remember(chance)
                found.append(chance)
            else:
                refused.add(scheduling_class(job))
        return found

    def forget(self) -> None:
        """Drop all forecasts, because the predictor has learned something."""
        self._forecasts.forget()

    def _first(self, context: SchedulingContext, job: Job) -> Chance | None:
        """The chance on the first device that would have admitted this job; None if no device would."""
        for snapshot in context.shareable_for(job):
            if all(self._may_be_joined(resident, context.now) for resident in snapshot.residents):
                verdict = context.judge(job, snapshot.device.id)
                if verdict.admitted:
                    return _chance(job, snapshot, context.forecast(job, snapshot), verdict.rule, context.now)
        return None

    def _may_be_joined(self, attempt: Attempt, now: float) -> bool:
        """Whether it runs, its job had no chance earlier, and no other job would be sharing its device now."""
        open_again = self._taken_until.get(attempt.id, -inf) <= now
        return attempt.started_at is not None and attempt.id.job not in self._had and open_again

    def _remember(self, chance: Chance) -> None:
        self._had.add(chance.job)
        self._taken_until[chance.beside] = inf if chance.free_at is None else chance.free_at


def _chance(job: Job, snapshot: DeviceSnapshot, forecast: Forecast, rule: str, now: float) -> Chance:
    """What is recorded of a chance. Jobs run alone in shadow mode, so there is one resident and at most one pair."""
    cost = forecast.pairs[0] if forecast.pairs else None
    slowdown = cost.newcomer if cost else forecast.expected_slowdown
    lasts_s = forecast.duration_p50_s
    return Chance(
        job=job.id,
        at=now,
        device=snapshot.device.id,
        beside=snapshot.residents[0].id,
        rule=rule,
        evidence=forecast.pair_evidence or forecast.evidence,
        newcomer=slowdown,
        newcomer_upper=cost.newcomer_upper if cost else forecast.upper_slowdown,
        resident=cost.resident if cost else None,
        resident_upper=cost.resident_upper if cost else None,
        free_at=None if lasts_s is None else now + lasts_s * (slowdown or 1.0),
    )
