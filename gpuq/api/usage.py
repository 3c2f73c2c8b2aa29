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

from gpuq.adapters.store.row_types import Run
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
_STATE_OF_STOPPED: dict[StopReason | None, JobState] = {
    StopReason.PREEMPTED: JobState.PREEMPTED,
    StopReason.TIME_LIMIT: JobState.TIMEOUT,
}


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
    runs: Sequence[Run],
    since: float,
    by: Sequence[str],
    price_per_kwh: float,
    counts: Callable[[Run], bool] = lambda _: True,
) -> tuple[UsageGroup, list[UsageGroup]]:
    """(all together, each group), of the `uses` of these runs."""
    found = uses(runs, since, counts)
    return group_of({}, [use for _, use in found], price_per_kwh), groups_of(found, by, price_per_kwh)


def uses(
    runs: Iterable[Run], since: float, counts: Callable[[Run], bool] = lambda _: True
) -> list[tuple[Run, AttemptUse]]:
    """The runs that ended at `since` (Unix seconds) or later and of which `counts` says yes; the others are partners only."""
    runs = list(runs)
    sharing = _sharing(runs)
    return [
        (run, _use(run, run.ended_at, sharing[AttemptId(run.job, run.number)]))
        for run in runs
        if run.ended_at is not None and run.ended_at >= since and counts(run)
    ]


def groups_of(found: Iterable[tuple[Run, AttemptUse]], by: Sequence[str], price_per_kwh: float) -> list[UsageGroup]:
    """Groups by the names in `by`: `user`, `project`, `week`; weeks in order, largest held first."""
    groups: dict[tuple[str | None, ...], list[AttemptUse]] = defaultdict(list)
    for run, use in found:
        keys = {"user": run.owner, "project": run.project, "week": week(run.ended_at or 0.0)}
        groups[tuple(keys[name] for name in by)].append(use)
    made = [group_of(dict(zip(by, key, strict=True)), each, price_per_kwh) for key, each in groups.items()]
    return sorted(made, key=lambda group: (group.week or "", -group.held_hours, group.user or "", group.project or ""))


def week(unix: float) -> str:
    """The ISO week in UTC, as `2026-W47`."""
    year, number, _ = datetime.fromtimestamp(unix, UTC).isocalendar()
    return f"{year}-W{number:02}"


def end_state(run: Run) -> JobState:
    """How this attempt ended, in the words for jobs. Of a job's last attempt that is the job's own state."""
    if run.last and run.job_state in _ENDS:
        return run.job_state
    if run.ending == Ending.EXITED and run.exit_code == 0:
        return JobState.COMPLETED
    if run.ending == Ending.STOPPED:
        return _STATE_OF_STOPPED.get(run.stop_reason, JobState.CANCELLED)
    return _STATE_OF.get(Ending(run.ending), JobState.FAILED) if run.ending in list(Ending) else JobState.FAILED


_ENDS = frozenset({*LOST, JobState.COMPLETED, JobState.CANCELLED, JobState.PREEMPTED})


def _sharing(runs: Iterable[Run]) -> Mapping[AttemptId, tuple[float, float]]:
    """Of each attempt: (device-seconds beside others, its part of the device-seconds that its devices were occupied)."""
    changes: dict[str, list[tuple[float, bool, AttemptId]]] = defaultdict(list)
    for run in runs:
        end = float("inf") if run.ended_at is None else run.ended_at
        attempt = AttemptId(run.job, run.number)
        for device in run.devices if run.started_at < end else ():
            changes[device].append((run.started_at, True, attempt))
            changes[device].append((end, False, attempt))
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


def _use(run: Run, ended_at: float, sharing: tuple[float, float]) -> AttemptUse:
    held = max(0.0, ended_at - run.started_at) * len(run.devices) / HOUR_S
    limit, actual = run.time_limit_s, run.actual
    shared, part = sharing[0] / HOUR_S, sharing[1] / HOUR_S
    slowdown = (actual.slowdown if actual else None) if shared else 1.0
    alone = None if slowdown is None or slowdown <= 0 else held - shared + shared / slowdown
    peak = actual.peak_utilization_pct if actual else None
    used_at_most = None if peak is None else held * min(peak, 100.0) / 100
    joules, idle = (actual.energy_joules, actual.idle_joules) if actual else (None, None)
    return AttemptUse(
        job=run.job,
        state=end_state(run),
        held=held,
        requested=None if limit is None else limit * len(run.devices) / HOUR_S,
        used_at_most=used_at_most,
        idle_at_least=None if used_at_most is None else held - used_at_most,
        shared=shared,
        saved=None if alone is None else alone - part,
        slowed=None if alone is None else held - alone,
        energy_kwh=None if joules is None else joules / _JOULES_PER_KWH,
        idle_kwh=None if idle is None else idle / _JOULES_PER_KWH,
    )


def group_of(key: Mapping[str, str | None], uses: Sequence[AttemptUse], price_per_kwh: float) -> UsageGroup:
    """The figures of these together, under `key`."""
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
