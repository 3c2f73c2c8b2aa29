"""The state, rebuilt from the record: jobs that have not ended, attempts that live, devices. Readings come from the hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from gpuq.adapters.store.contract import AttemptRow, JobRow, Service, Store
from gpuq.codec import noun
from gpuq.core.actions import Launch
from gpuq.core.attempt import Attempt, StopReason
from gpuq.core.job import ENDED, Job, JobId, JobState
from gpuq.core.state import State
from gpuq.core.usage import HALF_LIFE_S, UNUSED
from gpuq.core.verdict import Verdict
from gpuq.submission import JobRecord, to_core

# Read a page at a time: the records of all jobs at once would leave the process large for good.
_ROWS_AT_ONCE = 500
# What was used ten half-lives ago counts a thousandth.
_HALF_LIVES_READ = 10
_NOT_ENDED = [state for state in JobState if state not in ENDED]


def restore(store: Store, now: float, register: Callable[[JobId, JobRecord], None] | None = None) -> State:
    """The state as of the last commit; `register` is told of each job in it."""
    state = State()
    state.devices = {device.id: device for device in store.devices()}
    for row in _jobs_not_ended(store):
        state.jobs[row.id] = job_from_row(row)
        if row.verdict and row.state is JobState.PENDING:
            state.verdicts[row.id] = noun(row.verdict, Verdict)
        if register is not None:
            register(row.id, row.record)
    attempts = (attempt_from_row(row) for row in store.live_attempts())
    _settle(state, (a for a in attempts if a.id.job in state.jobs))
    _account(state, store.services(since=now - _HALF_LIVES_READ * HALF_LIFE_S))
    return state


def _account(state: State, services: Iterable[Service]) -> None:
    """What owners and waiting jobs have had so far."""
    for had in services:
        seconds = max(0.0, had.ended_at - had.started_at) * had.devices
        state.usage[had.owner] = state.usage.get(had.owner, UNUSED).after(seconds, had.ended_at)
        job = state.jobs.get(had.job)
        if job is not None:
            state.jobs[job.id] = replace(job, served_s=job.served_s + seconds)


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


def _settle(state: State, attempts: Iterable[Attempt]) -> None:
    """Put the attempts on their devices. A Stop that was under way is known from its job being COMPLETING, and its reason from
    whether somebody wanted the job ended: nothing else stops an attempt for good."""
    for attempt in sorted(attempts, key=lambda a: (a.launched_at, a.id)):
        job = state.jobs[attempt.id.job]
        reason = StopReason.CANCELLED if job.cancel_requested else StopReason.PREEMPTED
        state.attempts[attempt.id] = replace(attempt, stopping=reason if job.state is JobState.COMPLETING else None)
        for device in attempt.devices:
            state.residents[device] = (*state.residents.get(device, ()), attempt.id)
    for device, residents in state.residents.items():
        if len(residents) > 1:
            for resident in state.residents[device]:
                state.attempts[resident] = replace(state.attempts[resident], had_partner=True)
