"""What sharing would have saved and cost while gpuq ran every job alone (shadow mode).

Computed from the recorded sharing opportunities and the attempts that have ended. A newcomer joins at its first opportunity.
Both jobs run at the predicted slowdowns until one ends or the next newcomer would have joined; the other continues alone. How
long each takes alone is what was measured. With T the time together, and x and y the slowdowns (time together / time alone),
the device does T/x + T/y of work in T:

    saved = T/x + T/y - T         delays = T - T/x and T - T/y         wait avoided = real start - opportunity

A resident on k devices does k * T/y of work on its k devices, which it occupies anyway, and is slowed on all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from gpuq.adapters.store.row_types import AttemptRow, Chance, JobRow
from gpuq.api.contract.schema_predict import ShadowPair, ShadowReport
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.job import JobId
from gpuq.format import rfc3339

HOUR_S = 3600.0
DEFINITION = (
    "Each job joins another at its first opportunity; both run at the predicted slowdowns until one ends, then the other "
    "continues alone. How long each takes alone is what was measured. At most one job joins a device at a time. A job that "
    "would have joined is no partner of others when it really runs, and earlier starts of other jobs in its place are not "
    "counted, so the figures are low estimates."
)


@dataclass(frozen=True, slots=True)
class LoneRun:
    """One attempt that ran alone, from start to end in Unix seconds."""

    kind: str
    started_at: float
    ended_at: float
    devices: int

    @property
    def duration_s(self) -> float:
        """Seconds from start to end."""
        return self.ended_at - self.started_at


@dataclass(frozen=True, slots=True)
class SharingEffect:
    """The effect of one opportunity: device-seconds saved, seconds of delay of each job, seconds of waiting avoided."""

    chance: Chance
    newcomer: LoneRun
    resident: LoneRun
    together_s: float
    saved_s: float
    newcomer_delay_s: float
    resident_delay_s: float
    wait_s: float


def effect(chance: Chance, newcomer: LoneRun, resident: LoneRun, until: float | None = None) -> SharingEffect | None:
    """The effect of one opportunity by the formulas above; None if a slowdown was not predicted.

    `until`: when the next newcomer would have joined, in Unix seconds.
    """
    x, y = chance.newcomer, chance.resident
    if x is None or y is None:
        return None
    # Together until the first of three ends: the newcomer, which needs its duration times x; the resident, which needs what is
    # left of it times y; or the arrival of the next newcomer, from which on a third job would be involved.
    left_s = max(0.0, resident.ended_at - chance.at)
    together_s = min(newcomer.duration_s * x, left_s * y, *(() if until is None else (until - chance.at,)))
    return SharingEffect(
        chance=chance,
        newcomer=newcomer,
        resident=resident,
        together_s=together_s,
        saved_s=together_s / x - resident.devices * (together_s - together_s / y),
        newcomer_delay_s=together_s - together_s / x,
        resident_delay_s=together_s - together_s / y,
        wait_s=max(0.0, newcomer.started_at - chance.at),
    )


def missed_savings(
    chances: Sequence[Chance],
    finished: Sequence[tuple[JobRow, AttemptRow]],
    *,
    on: bool,
    days: int,
    since: float,
    never_ran: int,
) -> ShadowReport:
    """The report over `chances` (opportunities, oldest first). `finished`: the attempts that ended since the first of them.

    `never_ran` counts further opportunities, of jobs that ended without running. `on`, `days` and `since` (Unix seconds) describe
    the report and change no figure.
    """
    ran: dict[AttemptId, LoneRun] = {}
    for job, row in finished:
        if row.started_at is not None and row.ended_at is not None and row.ended_at > row.started_at:
            run = LoneRun(job.record.kind, row.started_at, row.ended_at, len(row.devices))
            ran[AttemptId(row.job, row.number)] = run
    by_job: dict[JobId, list[LoneRun]] = defaultdict(list)
    for attempt, run in sorted(ran.items()):
        by_job[attempt.job].append(run)
    effects: list[SharingEffect] = []
    still_open = 0
    next_at: dict[AttemptId, float] = {}
    # Latest first, so that for each opportunity it is known when the next newcomer would have joined.
    for chance in reversed(chances):
        newcomer = next((run for run in by_job[chance.job] if run.started_at >= chance.at), None)
        if newcomer is None or chance.beside not in ran:
            still_open += 1
            continue
        found = effect(chance, newcomer, ran[chance.beside], next_at.get(chance.beside))
        next_at[chance.beside] = chance.at
        if found is not None:
            effects.append(found)
    slowdowns = _slowdowns(effects)
    uppers = [upper for one in effects for upper in (one.chance.newcomer_upper, one.chance.resident_upper)]
    waits = [one.wait_s for one in effects]
    return ShadowReport(
        on=on,
        days=days,
        since=rfc3339(since),
        definition=DEFINITION,
        chances=len(chances) + never_ran,
        counted=len(effects),
        open=still_open,
        never_ran=never_ran,
        slowdown_unknown=len(chances) - still_open - len(effects),
        gpu_hours_run=sum(run.duration_s * run.devices for run in ran.values()) / HOUR_S,
        gpu_hours_saved=sum(one.saved_s for one in effects) / HOUR_S,
        wait_avoided_mean_s=fmean(waits) if waits else None,
        wait_avoided_hours=sum(waits) / HOUR_S,
        slowdown_mean=fmean(slowdowns) if slowdowns else None,
        slowdown_worst=max(slowdowns, default=None),
        slowdown_upper_worst=max((upper for upper in uppers if upper is not None), default=None),
        delay_hours=sum(one.newcomer_delay_s + one.resident_delay_s for one in effects) / HOUR_S,
        pairs=_pairs(effects),
        attempts_ended=len(finished),
        attempts_shared=sum(bool(row.actual and row.actual.partners) for _, row in finished),
    )


def _slowdowns(effects: Iterable[SharingEffect]) -> list[float]:
    """The slowdown of each job that would have shared. A resident may have several partners one after the other."""
    delays: dict[tuple[JobId, float], float] = defaultdict(float)
    for one in effects:
        delays[one.chance.job, one.newcomer.duration_s] += one.newcomer_delay_s
        delays[one.chance.beside.job, one.resident.duration_s] += one.resident_delay_s
    return [(alone_s + delay_s) / alone_s for (_, alone_s), delay_s in delays.items()]


def _pairs(effects: Iterable[SharingEffect]) -> list[ShadowPair]:
    """The pairs of kinds, largest saving first."""
    found: dict[tuple[str, str], list[SharingEffect]] = defaultdict(list)
    for one in effects:
        found[one.newcomer.kind, one.resident.kind].append(one)
    pairs = [
        ShadowPair(
            newcomer=newcomer,
            beside=resident,
            times=len(of),
            gpu_hours_saved=sum(one.saved_s for one in of) / HOUR_S,
            newcomer_slowdown=fmean(one.chance.newcomer or 1.0 for one in of),
            beside_slowdown=fmean(one.chance.resident or 1.0 for one in of),
            wait_avoided_mean_s=fmean(one.wait_s for one in of),
            evidence=of[0].chance.evidence,
        )
        for (newcomer, resident), of in found.items()
    ]
    return sorted(pairs, key=lambda pair: (-pair.gpu_hours_saved, pair.newcomer, pair.beside))
