"""Rebuilds the state from the record: jobs that have not ended, attempts that live, devices.

Readings are not in the record; they come with the hosts' next reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from gpuq.adapters.store.contract import AttemptRow, JobRow, Service, Store
from gpuq.codec import noun
from gpuq.core.state.actions import Launch
from gpuq.core.state.attempt import Attempt, StopReason
from gpuq.core.state.job import ENDED, Job, JobId, JobState
from gpuq.core.state.state import State
from gpuq.core.state.usage import HALF_LIFE_S, UNUSED, Usage
from gpuq.core.state.verdict import Verdict
from gpuq.submission import JobRecord, to_core

# Read a page at a time: the records of all jobs at once would enlarge the process for good.
_ROWS_AT_ONCE = 500
# After ten half-lives a usage counts a thousandth.
_HALF_LIVES_READ = 10
_NOT_ENDED = [state for state in JobState if state not in ENDED]


def restore(store: Store, now: float, register: Callable[[JobId, JobRecord], None] | None = None) -> State:
    """The state as of the last commit, at Unix time `now`; `register` is called with each job in it. Blocks."""
    jobs: dict[JobId, Job] = {}
    verdicts: dict[JobId, Verdict] = {}
    for row in _jobs_not_ended(store):
        jobs[row.id] = job_from_row(row)
        if row.verdict and row.state is JobState.PENDING:
            verdicts[row.id] = noun(row.verdict, Verdict)
        if register is not None:
            register(row.id, row.record)
    usage = _account(jobs, store.services(since=now - _HALF_LIVES_READ * HALF_LIFE_S))
    attempts = [attempt_from_row(row) for row in store.live_attempts() if row.job in jobs]
    # In the order of their launches: an attempt's partners at its launch are those that stand before it.
    attempts.sort(key=lambda attempt: (attempt.launched_at, attempt.id))
    return State(
        jobs=jobs,
        attempts={attempt.id: attempt for attempt in attempts},
        devices={device.id: device for device in store.devices()},
        verdicts=verdicts,
        usage=usage,
    )


def _account(jobs: dict[JobId, Job], services: Iterable[Service]) -> dict[str, Usage]:
    """The usage of each owner so far. The device-seconds that each of `jobs` had are added to it, in place."""
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
    """The core's job, in the state that the record has it in."""
    return replace(
        to_core(row.id, row.record),
        state=row.state,
        since=row.state_since,
        attempt=row.attempt,
        alone=row.alone,
        cancel_requested=row.cancel_requested,
    )


def attempt_from_row(row: AttemptRow) -> Attempt:
    """The core's attempt, as it was launched, with what is known since: that it started, and that it is being stopped."""
    stopping = None if row.stop_reason is None else StopReason(row.stop_reason)
    return replace(noun(row.launch, Launch).attempt, started_at=row.started_at, stopping=stopping)
