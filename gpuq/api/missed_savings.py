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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from gpuq.adapters.store.contract import AttemptRow, Chance, JobRow
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.job import JobId

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


@dataclass(frozen=True, slots=True)
class PairSavings:
    """All effects of one kind beside another, those of the same pair summed. Slowdowns are time together / time alone."""

    newcomer: str
    resident: str
    times: int
    saved_h: float
    newcomer_slowdown: float
    resident_slowdown: float
    wait_mean_s: float
    evidence: str | None


@dataclass(frozen=True, slots=True)
class MissedSavings:
    """The sums. Hours are device-hours. Slowdowns are of whole jobs, (time alone + delay) / time alone; None for no job."""

    ran_h: float
    counted: int
    open: int
    unknown: int
    saved_h: float
    wait_mean_s: float | None
    wait_sum_h: float
    slowdown_mean: float | None
    slowdown_worst: float | None
    upper_worst: float | None
    delay_sum_h: float
    pairs: tuple[PairSavings, ...]


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


def missed_savings(chances: Sequence[Chance], finished: Iterable[tuple[JobRow, AttemptRow]]) -> MissedSavings:
    """The sums over `chances` (opportunities, oldest first). `finished`: the attempts that ended since the first of them."""
    ran = {AttemptId(row.job, row.number): found for job, row in finished if (found := _ran(job, row)) is not None}
    by_job: dict[JobId, list[LoneRun]] = defaultdict(list)
    for attempt, found in sorted(ran.items()):
        by_job[attempt.job].append(found)
    known = [chance for chance in chances if chance.beside in ran and _after(by_job, chance) is not None]
    effects = list(_effects(known, ran, by_job))
    slowdowns = list(_slowdowns(effects))
    uppers = [
        upper
        for one in effects
        for upper in (one.chance.newcomer_upper, one.chance.resident_upper)
        if upper is not None
    ]
    waits = [one.wait_s for one in effects]
    return MissedSavings(
        ran_h=sum(found.duration_s * found.devices for found in ran.values()) / HOUR_S,
        counted=len(effects),
        open=len(chances) - len(known),
        unknown=len(known) - len(effects),
        saved_h=sum(one.saved_s for one in effects) / HOUR_S,
        wait_mean_s=fmean(waits) if waits else None,
        wait_sum_h=sum(waits) / HOUR_S,
        slowdown_mean=fmean(slowdowns) if slowdowns else None,
        slowdown_worst=max(slowdowns, default=None),
        upper_worst=max(uppers, default=None),
        delay_sum_h=sum(one.newcomer_delay_s + one.resident_delay_s for one in effects) / HOUR_S,
        pairs=tuple(_pairs(effects)),
    )


def _ran(job: JobRow, row: AttemptRow) -> LoneRun | None:
    if row.started_at is None or row.ended_at is None or row.ended_at <= row.started_at:
        return None
    return LoneRun(job.record.kind, row.started_at, row.ended_at, len(row.devices))


def _after(by_job: Mapping[JobId, Sequence[LoneRun]], chance: Chance) -> LoneRun | None:
    """The attempt of the opportunity's job that really ran, after it."""
    return next((found for found in by_job.get(chance.job, ()) if found.started_at >= chance.at), None)


def _effects(
    chances: Sequence[Chance], ran: Mapping[AttemptId, LoneRun], by_job: Mapping[JobId, Sequence[LoneRun]]
) -> Iterator[SharingEffect]:
    next_at: dict[AttemptId, float] = {}
    # Latest first, so that for each opportunity it is known when the next newcomer would have joined.
    for chance in reversed(chances):
        newcomer, until = _after(by_job, chance), next_at.get(chance.beside)
        found = None if newcomer is None else effect(chance, newcomer, ran[chance.beside], until)
        next_at[chance.beside] = chance.at
        if found is not None:
            yield found


def _slowdowns(effects: Iterable[SharingEffect]) -> Iterator[float]:
    """The slowdown of each job that would have shared. A resident may have several partners one after the other."""
    delays: dict[tuple[JobId, float], float] = defaultdict(float)
    for one in effects:
        delays[one.chance.job, one.newcomer.duration_s] += one.newcomer_delay_s
        delays[one.chance.beside.job, one.resident.duration_s] += one.resident_delay_s
    for (_, alone_s), delay_s in delays.items():
        yield (alone_s + delay_s) / alone_s


def _pairs(effects: Iterable[SharingEffect]) -> list[PairSavings]:
    """The pairs of kinds, largest saving first."""
    found: dict[tuple[str, str], list[SharingEffect]] = defaultdict(list)
    for one in effects:
        found[one.newcomer.kind, one.resident.kind].append(one)
    pairs = [
        PairSavings(
            newcomer=newcomer,
            resident=resident,
            times=len(of),
            saved_h=sum(one.saved_s for one in of) / HOUR_S,
            newcomer_slowdown=fmean(one.chance.newcomer or 1.0 for one in of),
            resident_slowdown=fmean(one.chance.resident or 1.0 for one in of),
            wait_mean_s=fmean(one.wait_s for one in of),
            evidence=of[0].chance.evidence,
        )
        for (newcomer, resident), of in found.items()
    ]
    return sorted(pairs, key=lambda pair: (-pair.saved_h, pair.newcomer, pair.resident))
