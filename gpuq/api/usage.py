"""What users and projects had of the devices: hours requested, held, saved by sharing and lost, energy and its cost.

An attempt counts whole, in the week (ISO, in UTC) in which it ended. All hours are device-hours: an hour on two devices is two.

- requested: the time limit times the devices, of attempts with a limit.
- held: from start to end. Two attempts that share a device for an hour hold two hours.
- used at most: held times the peak utilisation, which is at least the mean; idle at least: the rest of held.
- saved: what the attempt would have held alone, minus its part of the time that the devices were occupied. Let s be its measured
  slowdown (time together / time alone) and k the attempts on the device at a moment dt. Alone it would have needed dt / s where
  k > 1 and dt where it was alone; its part is dt / k. Of two attempts together for T: T / x + T / y - T, as in `missed_savings`.
- slowed: what partners added to it, dt - dt / s.
- lost: held by attempts that failed, timed out, ran out of memory or lost their host.

A sum is of the attempts for which the number is known, and None if there is none; `unknown` counts the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

from gpuq.adapters.store.contract import AttemptRow, JobRow
from gpuq.api.contract.schema_predict import UsageGroup
from gpuq.core.state.attempt import AttemptId, Ending, StopReason
from gpuq.core.state.job import JobState

HOUR_S = 3600.0
_JOULES_PER_KWH = 3.6e6
LOST = (JobState.FAILED, JobState.TIMEOUT, JobState.OUT_OF_MEMORY, JobState.NODE_FAIL)
_STATE_OF = {
    Ending.TIMED_OUT: JobState.TIMEOUT,
    Ending.OUT_OF_MEMORY: JobState.OUT_OF_MEMORY,
    Ending.HOST_OUT_OF_MEMORY: JobState.OUT_OF_MEMORY,
    Ending.LOST: JobState.NODE_FAIL,
    Ending.DEVICE_FAILED: JobState.NODE_FAIL,
    Ending.NEVER_STARTED: JobState.NODE_FAIL,
}

Finished = tuple[JobRow, AttemptRow]


@dataclass(frozen=True, slots=True)
class AttemptUse:
    """One attempt in the figures, in hours, kilowatt-hours and states; None for what is not known of it."""

    job: int
    state: JobState
    held: float
    requested: float | None
    used_at_most: float | None
    idle_at_least: float | None
    shared: float
    saved: float | None
    slowed: float | None
    energy_kwh: float | None
    idle_kwh: float | None


def usage(
    finished: Sequence[Finished],
    others: Iterable[AttemptRow],
    by: Sequence[str],
    price_per_kwh: float,
    counts: Callable[[JobRow], bool] = lambda _: True,
) -> tuple[UsageGroup, list[UsageGroup]]:
    """(all together, each group): groups by the names in `by`: `user`, `project`, `week`; weeks in order, largest held first.

    `others` are further attempts that shared devices with `finished`: those that still run. `counts` says whose attempts are in
    the figures; the rest are partners only.
    """
    sharing = _sharing([*(row for _, row in finished), *others])
    groups: dict[tuple[str | None, ...], list[AttemptUse]] = defaultdict(list)
    for job, row in finished:
        if counts(job) and row.started_at is not None and row.ended_at is not None:
            keys = {"user": job.record.owner, "project": job.record.submission.project, "week": week(row.ended_at)}
            groups[tuple(keys[name] for name in by)].append(_use(job, row, sharing[AttemptId(row.job, row.number)]))
    found = [_group(dict(zip(by, key, strict=True)), uses, price_per_kwh) for key, uses in groups.items()]
    found.sort(key=lambda group: (group.week or "", -group.held_hours, group.user or "", group.project or ""))
    return _group({}, [use for uses in groups.values() for use in uses], price_per_kwh), found


def week(unix: float) -> str:
    """The ISO week in UTC, as `2026-W47`."""
    year, number, _ = datetime.fromtimestamp(unix, UTC).isocalendar()
    return f"{year}-W{number:02}"


def end_state(job: JobRow, row: AttemptRow) -> JobState:
    """How this attempt ended, in the words for jobs. Of a job's last attempt that is the job's own state."""
    if row.number == job.attempt and job.state in _ENDS:
        return job.state
    if row.ending == Ending.EXITED and row.exit_code == 0:
        return JobState.COMPLETED
    if row.ending == Ending.STOPPED:
        return JobState.PREEMPTED if row.stop_reason is StopReason.PREEMPTED else JobState.CANCELLED
    return _STATE_OF.get(Ending(row.ending), JobState.FAILED) if row.ending in list(Ending) else JobState.FAILED


_ENDS = frozenset({*LOST, JobState.COMPLETED, JobState.CANCELLED, JobState.PREEMPTED})


def _sharing(rows: Iterable[AttemptRow]) -> Mapping[AttemptId, tuple[float, float]]:
    """Of each attempt: (device-seconds beside others, its part of the device-seconds that its devices were occupied)."""
    changes: dict[str, list[tuple[float, bool, AttemptId]]] = defaultdict(list)
    for row in rows:
        end = float("inf") if row.ended_at is None else row.ended_at
        if row.started_at is not None and row.started_at < end:
            for device in row.devices:
                changes[device].append((row.started_at, True, AttemptId(row.job, row.number)))
                changes[device].append((end, False, AttemptId(row.job, row.number)))
    found: dict[AttemptId, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    for on_device in changes.values():
        present: set[AttemptId] = set()
        for (moment, begins, attempt), (following, *_) in pairwise(sorted(on_device)):
            (present.add if begins else present.discard)(attempt)
            length = following - moment
            for each in present if 0 < length < float("inf") else ():
                shared, part = found[each]
                found[each] = (shared + length * (len(present) > 1), part + length / len(present))
    return found


def _use(job: JobRow, row: AttemptRow, sharing: tuple[float, float]) -> AttemptUse:
    assert row.started_at is not None
    assert row.ended_at is not None
    held = max(0.0, row.ended_at - row.started_at) * len(row.devices) / HOUR_S
    limit, actual = job.record.submission.time_limit_s, row.actual
    shared, part = sharing[0] / HOUR_S, sharing[1] / HOUR_S
    slowdown = (actual.slowdown if actual else None) if shared else 1.0
    alone = None if slowdown is None or slowdown <= 0 else held - shared + shared / slowdown
    peak = actual.peak_utilization_pct if actual else None
    used_at_most = None if peak is None else held * min(peak, 100.0) / 100
    joules, idle = (actual.energy_joules, actual.idle_joules) if actual else (None, None)
    return AttemptUse(
        job=row.job,
        state=end_state(job, row),
        held=held,
        requested=None if limit is None else limit * len(row.devices) / HOUR_S,
        used_at_most=used_at_most,
        idle_at_least=None if used_at_most is None else held - used_at_most,
        shared=shared,
        saved=None if alone is None else alone - part,
        slowed=None if alone is None else held - alone,
        energy_kwh=None if joules is None else joules / _JOULES_PER_KWH,
        idle_kwh=None if idle is None else idle / _JOULES_PER_KWH,
    )


def _group(key: Mapping[str, str | None], uses: Sequence[AttemptUse], price_per_kwh: float) -> UsageGroup:
    unknown = {}

    def known(name: str) -> float | None:
        values = [value for use in uses if (value := getattr(use, name)) is not None]
        if len(values) < len(uses):
            unknown[name] = len(uses) - len(values)
        return sum(values) if values else None

    energy = known("energy_kwh")
    ended: dict[str, float] = defaultdict(float)
    for use in uses:
        ended[use.state] += use.held
    return UsageGroup(
        user=key.get("user"),
        project=key.get("project"),
        week=key.get("week"),
        jobs=len({use.job for use in uses}),
        attempts=len(uses),
        requested_hours=known("requested"),
        held_hours=sum(use.held for use in uses),
        used_at_most_hours=known("used_at_most"),
        idle_at_least_hours=known("idle_at_least"),
        shared_hours=sum(use.shared for use in uses),
        saved_hours=known("saved"),
        slowed_hours=known("slowed"),
        lost_hours=sum(ended.get(state, 0.0) for state in LOST),
        hours_by_end=dict(sorted(ended.items())),
        energy_kwh=energy,
        idle_kwh=known("idle_kwh"),
        cost=None if energy is None else energy * price_per_kwh,
        unknown=unknown,
    )
