"""What sharing would have saved and caused, while gpuq ran every job alone.

Arrives: first chances, and the attempts that have ended. Leaves: sums, and each pair of kinds. A newcomer joins at its first
chance; both run at the slowdowns foretold until one ends, or somebody else would have joined; the other goes on alone. How
long each really takes alone is what the record measured. With T together, and slowdowns x and y of time together / time
alone, the device does T/x + T/y of work in T:

    saved = T/x + T/y - T         delays = T - T/x and T - T/y         wait avoided = real start - chance

A resident on k devices does k * T/y on the k devices that it has anyway, and is slowed on all of them.
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
    "Each job joins another at its first chance; both run at the slowdowns foretold until one ends, then the other goes on "
    "alone. How long each takes alone is what was measured. A device is joined by one at a time; a job that had its chance is "
    "nobody's partner when it really runs; that others start earlier since it is gone is left out, so the figures are on the "
    "low side."
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
        """How long it ran."""
        return self.ended_at - self.started_at


@dataclass(frozen=True, slots=True)
class SharingEffect:
    """What one chance would have come to. Device-seconds saved; seconds of delay; seconds of waiting avoided."""

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
    """All effects of one kind beside another. Slowdowns are time together / time alone."""

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
    """The sums. Hours are device-hours; slowdowns are of whole jobs: (time alone + delay) / time alone. None: of nobody."""

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
    """The arithmetic above; `until` is when another would have joined. None where a slowdown was not foretold."""
    x, y = chance.newcomer, chance.resident
    if x is None or y is None:
        return None
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
    """Everything. `finished` are the attempts that ended since the first of the chances; chances are oldest first."""
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
    """The attempt that really ran in place of the one that would have joined."""
    return next((found for found in by_job.get(chance.job, ()) if found.started_at >= chance.at), None)


def _effects(
    chances: Sequence[Chance], ran: Mapping[AttemptId, LoneRun], by_job: Mapping[JobId, Sequence[LoneRun]]
) -> Iterator[SharingEffect]:
    next_at: dict[AttemptId, float] = {}
    # From the latest on, so that each knows when the next would have joined.
    for chance in reversed(chances):
        newcomer, until = _after(by_job, chance), next_at.get(chance.beside)
        found = None if newcomer is None else effect(chance, newcomer, ran[chance.beside], until)
        next_at[chance.beside] = chance.at
        if found is not None:
            yield found


def _slowdowns(effects: Iterable[SharingEffect]) -> Iterator[float]:
    """Of each job that would have shared; a resident may have had several partners one after the other."""
    delays: dict[tuple[JobId, float], float] = defaultdict(float)
    for one in effects:
        delays[one.chance.job, one.newcomer.duration_s] += one.newcomer_delay_s
        delays[one.chance.beside.job, one.resident.duration_s] += one.resident_delay_s
    for (_, alone_s), delay_s in delays.items():
        yield (alone_s + delay_s) / alone_s


def _pairs(effects: Iterable[SharingEffect]) -> list[PairSavings]:
    """The pairs of kinds, those that would have saved most first."""
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
