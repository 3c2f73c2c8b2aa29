"""The state, rebuilt from the record: jobs that have not ended, attempts that live, devices. Readings come from the hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from gpuq.adapters.store.contract import AttemptRow, JobRow, Service, Store
from gpuq.codec import noun
from gpuq.core.state.actions import Launch
from gpuq.core.state.attempt import Attempt, AttemptId, StopReason
from gpuq.core.state.job import ENDED, Job, JobId, JobState
from gpuq.core.state.state import State
from gpuq.core.state.usage import HALF_LIFE_S, UNUSED, Usage
from gpuq.core.state.verdict import Verdict
from gpuq.submission import JobRecord, to_core

# Read a page at a time: the records of all jobs at once would leave the process large for good.
_ROWS_AT_ONCE = 500
# What was used ten half-lives ago counts a thousandth.
_HALF_LIVES_READ = 10
_NOT_ENDED = [state for state in JobState if state not in ENDED]


def restore(store: Store, now: float, register: Callable[[JobId, JobRecord], None] | None = None) -> State:
    """The state as of the last commit; `register` is told of each job in it."""
    jobs: dict[JobId, Job] = {}
    verdicts: dict[JobId, Verdict] = {}
    for row in _jobs_not_ended(store):
        jobs[row.id] = job_from_row(row)
        if row.verdict and row.state is JobState.PENDING:
            verdicts[row.id] = noun(row.verdict, Verdict)
        if register is not None:
            register(row.id, row.record)
    usage = _account(jobs, store.services(since=now - _HALF_LIVES_READ * HALF_LIFE_S))
    attempts = (attempt_from_row(row) for row in store.live_attempts())
    return State(
        jobs=jobs,
        attempts=_in_order((a for a in attempts if a.id.job in jobs), jobs),
        devices={device.id: device for device in store.devices()},
        verdicts=verdicts,
        usage=usage,
    )


def _account(jobs: dict[JobId, Job], services: Iterable[Service]) -> dict[str, Usage]:
    """What owners have had so far; what each of `jobs` had is put down with it."""
    usage: dict[str, Usage] = {}
    for had in services:
        seconds = max(0.0, had.ended_at - had.started_at) * had.devices
        usage[had.owner] = usage.get(had.owner, UNUSED).after(seconds, had.ended_at)
        if had.job in jobs:
            jobs[had.job] = replace(jobs[had.job], served_s=jobs[had.job].served_s + seconds)
    return usage


def _jobs_not_ended(store: Store) -> Iterator[JobRow]:
    after: JobId | None = None
    while rows := store.jobs(states=_NOT_ENDED, after=after, limit=_ROWS_AT_ONCE):
        yield from rows
        after = rows[-1].id


def job_from_row(row: JobRow) -> Job:
    """The core's job, as far as it had come."""
    return replace(
        to_core(row.id, row.record),
        state=row.state,
        since=row.state_since,
        attempt=row.attempt,
        alone=row.alone,
        cancel_requested=row.cancel_requested,
    )


def attempt_from_row(row: AttemptRow) -> Attempt:
    """The core's attempt, as it was launched and since seen to start."""
    return replace(noun(row.launch, Launch).attempt, started_at=row.started_at)


def _in_order(attempts: Iterable[Attempt], jobs: Mapping[JobId, Job]) -> dict[AttemptId, Attempt]:
    """As they were launched. A Stop that was under way is known from its job being COMPLETING, and its reason from whether
    somebody wanted the job ended: nothing else stops an attempt for good."""
    found = {}
    for attempt in sorted(attempts, key=lambda a: (a.launched_at, a.id)):
        job = jobs[attempt.id.job]
        reason = StopReason.CANCELLED if job.cancel_requested else StopReason.PREEMPTED
        found[attempt.id] = replace(attempt, stopping=reason if job.state is JobState.COMPLETING else None)
    return found
