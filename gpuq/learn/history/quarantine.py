"""Selects the finished attempts that may teach, and puts them in the order of their ends.

A model is only as good as its rows. Left out are rows that cannot be read, rows with a value that cannot be right, copies of
other rows, and single memory readings far below everything else that the same work ever needed. Each reason is counted for
the card.

Clocks of hosts may be wrong. Jobs are numbered as they are submitted, so submission times must not fall with the number: the
largest set of jobs whose times do not fall is believed. An attempt of any other job, or one that ended before it started or
in the future, is placed by its number instead. Forecasts are not looked at: rows that disagree with the model must not be
dropped.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

import msgspec

from gpuq.learn.history.outcome import AttemptSide, JobSide, Outcome, impossible, outcome_from_rows

# Clocks of one site may differ by this much without being called wrong.
CLOCK_SLACK_S = 60.0
# Drivers round up; a reading further above the device's memory is an error.
_MEMORY_SLACK = 1.05
# The same work needs the same memory within a few percent (see `statistics`): an eighth of it was not the whole job.
_FAR_BELOW = 1 / 8
_LEAST_TO_COMPARE = 5
# A low reading in more than this share of the runs is how the work behaves, and no error.
_MOST_OUTLIERS = 0.2


@dataclass(frozen=True)
class TrainingSet:
    """Outcomes to train with, oldest end first; how many rows were left out, by reason; how many were placed by number."""

    outcomes: tuple[Outcome, ...]
    left_out: Mapping[str, int]
    misdated: int = 0

    @property
    def damaged(self) -> int:
        """The number of rows that something went wrong with; copies, and jobs that measured nothing, are not damage."""
        return sum(count for reason, count in self.left_out.items() if reason not in (COPY, EMPTY))


UNREADABLE = "cannot be read"
IMPOSSIBLE = "a value that cannot be right"
TOO_LARGE = "more memory than the device has"
COPY = "a copy of another attempt"
EMPTY = "nothing measured"
FAR_BELOW = "far below the same work's other runs"


@dataclass(frozen=True, slots=True)
class _Read:
    submitted_at: float
    started_at: float | None
    outcome: Outcome

    @property
    def number(self) -> tuple[int, int]:
        return self.outcome.attempt or (0, 0)


def select_training_set(
    rows: Iterable[tuple[JobSide, AttemptSide]],
    device_types: Mapping[str, str],
    memory: Mapping[str, int],
    now: float,
) -> TrainingSet:
    """Select and order the record's ended attempts.

    `device_types`: device id -> type. `memory`: device type -> bytes of its largest device. `now`: Unix seconds.
    """
    left_out: Counter[str] = Counter()
    read: dict[Hashable, _Read] = {}
    seen: dict[Hashable, Hashable] = {}
    for job, attempt in rows:
        outcome = outcome_from_rows(job, attempt, device_types)
        reason = _fault(outcome, attempt, memory)
        if outcome is None or reason is not None:
            left_out[reason or UNREADABLE] += 1
            continue
        number = outcome.attempt
        # All fingerprints are noted even if one already matches, so that a third copy is recognised by any of them.
        copies = [seen.setdefault(print_, number) != number for print_ in _fingerprints(outcome, attempt)]
        if number in read or any(copies):
            left_out[COPY] += 1
            continue
        read[number] = _Read(job.record.submitted_at, attempt.started_at, outcome)
    ordered, misdated = _in_order(sorted(read.values(), key=lambda one: one.number), now)
    kept = _without_low_outliers(ordered)
    left_out[FAR_BELOW] += len(ordered) - len(kept)
    return TrainingSet(tuple(kept), {reason: count for reason, count in sorted(left_out.items()) if count}, misdated)


def _fault(outcome: Outcome | None, attempt: AttemptSide, memory: Mapping[str, int]) -> str | None:
    if outcome is None or attempt.actual is None:
        return UNREADABLE
    if impossible(attempt.actual) is not None:
        return IMPOSSIBLE
    if outcome.peak_memory_bytes is None and outcome.peak_utilization_pct is None:
        return EMPTY
    limit = memory.get(outcome.device_type)
    too_large = limit is not None and (outcome.peak_memory_bytes or 0) > limit * _MEMORY_SLACK
    return TOO_LARGE if too_large else None


def _fingerprints(outcome: Outcome, attempt: AttemptSide) -> list[Hashable]:
    """Keys that no two attempts share: when they ran with the outcome, and the sums of their measured rates."""
    what = msgspec.json.encode(attempt.actual)
    prints: list[Hashable] = [(outcome.kind, attempt.started_at, attempt.ended_at, what)]
    # Measured windows that have sums of rates: unlike times, these sums never repeat by chance.
    measurement = getattr(attempt, "measurement", None)
    segments = measurement.get("segments") if isinstance(measurement, Mapping) else None
    if isinstance(segments, Sequence) and not isinstance(segments, str):
        summed = [one for one in segments if isinstance(one, Mapping) and one.get("rate_square_sum")]
        if summed:
            prints.append((outcome.kind, msgspec.json.encode(summed)))
    return prints


def _in_order(read: Sequence[_Read], now: float) -> tuple[list[Outcome], int]:
    """(outcomes, oldest end first; how many were placed by their number). `read` is sorted by number."""
    believed = _not_falling([one.submitted_at for one in read])
    placed: list[tuple[float, tuple[int, int], Outcome]] = []
    misdated = 0
    latest = min((read[i].submitted_at for i in believed), default=0.0)
    for i, one in enumerate(read):
        right = i in believed and one.submitted_at <= now + CLOCK_SLACK_S
        latest = one.submitted_at if right else latest
        # Submission, start and end must be in order and not in the future, as far as clocks agree.
        started = one.submitted_at if one.started_at is None else one.started_at
        ordered = one.submitted_at - CLOCK_SLACK_S <= started <= one.outcome.ended_at <= now + CLOCK_SLACK_S
        outcome = one.outcome
        if not (right and ordered):
            misdated += 1
            # It ends when it would have, had it been submitted when its neighbours by number were.
            lasted = 0.0 if one.started_at is None else max(0.0, outcome.ended_at - one.started_at)
            if latest + lasted > now:
                lasted = 0.0
            ended_at, duration_s = min(latest + lasted, now), outcome.duration_s if lasted else None
            outcome = replace(outcome, ended_at=ended_at, duration_s=duration_s)
        placed.append((outcome.ended_at, one.number, outcome))
    return [outcome for _, _, outcome in sorted(placed, key=lambda item: item[:2])], misdated


def _not_falling(times: Sequence[float]) -> set[int]:
    """Indices of the longest subsequence that does not fall (patience sorting, O(n log n))."""
    tails: list[float] = []
    at: list[int] = []
    before: list[int | None] = []
    for i, time in enumerate(times):
        place = bisect_right(tails, time)
        before.append(at[place - 1] if place else None)
        tails[place : place + 1] = [time]
        at[place : place + 1] = [i]
    chosen: set[int] = set()
    last = at[-1] if at else None
    while last is not None:
        chosen.add(last)
        last = before[last]
    return chosen


def _without_low_outliers(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """All but the few finished runs whose memory lies far below that of other runs of the same work.

    Only low values are dropped: a run that needed more than the others is what bounds must cover.
    """
    groups: dict[Hashable, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.whole and outcome.peak_memory_bytes is not None:
            work = (outcome.kind, outcome.device_type, outcome.script_sha256, outcome.features.get("batch_log2"))
            groups[work].append(outcome)
    outliers: set[int] = set()
    for runs in groups.values():
        if len(runs) < _LEAST_TO_COMPARE:
            continue
        limit = _FAR_BELOW * median(run.peak_memory_bytes or 0 for run in runs)
        low = [id(run) for run in runs if (run.peak_memory_bytes or 0) < limit]
        if len(low) <= _MOST_OUTLIERS * len(runs):
            outliers.update(low)
    return [outcome for outcome in outcomes if id(outcome) not in outliers]
