"""Changes of jobs: their states, their values, what they wait for and which devices are reserved for them.

All return whether anything changed.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace

from gpuq.core.state.actions import Requeue
from gpuq.core.state.dependency import Dependency, DependencyType
from gpuq.core.state.edit import JobEdit
from gpuq.core.state.job import ACTIVE, ENDED, Job, JobId, JobState
from gpuq.core.state.reservation import Reservation
from gpuq.core.state.state import State, is_open, put_job
from gpuq.core.state.transitions import Step, next_state
from gpuq.core.state.verdict import Verdict

_BEGUN = {JobState.RUNNING, JobState.COMPLETING} | ENDED


def add_job(state: State, job: Job) -> bool:
    """Refused is a job that the state has."""
    if job.id in state.jobs:
        return False
    # What its record has of other jobs' starts may be older than the state. What others wait for has not all begun.
    after = without_begun(job.after, state.jobs, known=state.index.dependents)
    put_job(state, job if after == job.after else replace(job, after=after))
    return True


def without_begun(
    after: tuple[Dependency, ...], jobs: Mapping[JobId, Job], known: Container[Dependency] = ()
) -> tuple[Dependency, ...]:
    """The dependencies without those on the start of others that have all started; `jobs` are those not yet archived. Those in
    `known` are known to be left."""
    return tuple(
        one for one in after if one.type is not DependencyType.START or one in known or not _has_begun(one, jobs)
    )


def _has_begun(dependency: Dependency, jobs: Mapping[JobId, Job], first: int = 0) -> bool:
    """`first`: the first of its jobs that is in `jobs`, if that is known."""
    open_ = map(JobId, range(max(first, dependency.first), dependency.last + 1))
    return all(jobs[one].state in _BEGUN for one in open_ if one in jobs)


def archive(state: State, job_id: JobId) -> bool:
    """Remove an ended job, and update those that waited for it."""
    job = state.jobs.pop(job_id, None)
    if job is None:
        return False
    state.verdicts.pop(job_id, None)
    state.index.job_changed(job, None)
    update_dependents(state, job)
    _update_singletons(state, job)
    return True


def update_dependents(state: State, job: Job) -> None:
    """Update what other jobs wait for after the start of one, or its final end."""
    for dependency in state.index.changed_dependencies(job, archived=job.id not in state.jobs):
        left = _left_of(state, dependency, job)
        if left == dependency and is_open(state, dependency):
            continue
        for waiting in [state.jobs[job] for job in state.index.dependents[dependency]]:
            after = (left if one == dependency else one for one in waiting.after)
            _change_wait(state, replace(waiting, after=tuple(dict.fromkeys(one for one in after if one is not None))))


def _left_of(state: State, dependency: Dependency, job: Job) -> Dependency | None:
    """What is left of it after the start of one of its jobs, or its final end; None: it holds."""
    if dependency.type is DependencyType.START:
        return None if _has_begun(dependency, state.jobs, state.index.last_open.get(dependency, 0)) else dependency
    if job.id in state.jobs:
        return dependency
    return dependency.after_end(job.id, job.state, is_last=not is_open(state, dependency))


def _change_wait(state: State, job: Job) -> None:
    """Put a job of which something has changed that it waits for: its verdict does not hold any more."""
    put_job(state, job)
    if job.state is JobState.PENDING:
        state.verdicts.pop(job.id, None)
        state.index.verdict_dropped(job.id)


def _update_singletons(state: State, gone: Job) -> None:
    """Update what the next job of an owner and a name waits for, after this one is gone from among them."""
    first = next(iter(state.index.named.get((gone.owner, gone.name or ""), ())), None)
    if first is not None and state.jobs[first].singleton:
        _change_wait(state, state.jobs[first])


def edit_job(state: State, job_id: JobId, edit: JobEdit) -> bool:
    """Give a job new values, all or none."""
    job = state.jobs.get(job_id)
    if job is None:
        return False
    limits = [attempt.time_limit_s for attempt in state.attempts_of(job) if attempt.time_limit_s is not None]
    if edit.obstacle(job.state, min(limits, default=None)) is not None:
        return False
    edited = edit.applied_to(job)
    if edited == job:
        return "notify" in edit.changes  # the record has changed
    if edit.only_labels:
        put_job(state, edited)
    else:
        # Its group may be another one, so neither the reason nor the devices may be right any more.
        state.reservations.pop(job_id, None)
        _change_wait(state, edited)
    if edited.name != job.name:
        _update_singletons(state, job)
        for later in [state.jobs[one] for one in state.index.named.get((job.owner, edited.name or ""), ())]:
            if later.singleton and not later.eligible and later.state is JobState.PENDING and later.id >= job_id:
                _change_wait(state, later)
    return True


def end_wait(state: State, jobs: Iterable[JobId], now: float) -> bool:
    """Make those of the jobs eligible that wait for a moment."""
    ready = [state.jobs[job] for job in jobs if job in state.jobs and state.index.awaits_moment(state.jobs[job])]
    for job in ready:
        _change_wait(state, replace(job, eligible=True, eligible_at=now, not_before=None))
    return bool(ready)


def take_step(state: State, job_id: JobId, step: Step, now: float) -> bool:
    """Take the job to the state that this step leads to. False, and nothing changes, if the step is illegal."""
    job = state.jobs.get(job_id)
    next_ = None if job is None else next_state(job.state, step)
    if job is None or next_ is None:
        return False
    if step is Step.RELEASE and job.eligible:
        # It could not have started while it was held.
        job = replace(job, eligible_at=now - max(0.0, job.since - job.waits_since))
    put_job(state, replace(job, state=next_, since=now))
    if step is not Step.STOP:
        state.verdicts.pop(job_id, None)
    if next_ is not JobState.PENDING:
        # Whatever ended the wait (a launch, a cancel, a hold), the devices are not needed for it any more.
        state.reservations.pop(job_id, None)
    return True


def request_cancel(state: State, job_id: JobId, now: float) -> bool:
    """A job that has no attempt ends at once; the attempt of another is stopped by the next pass."""
    job = state.jobs.get(job_id)
    if job is None or job.state in ENDED or job.cancel_requested:
        return False
    put_job(state, replace(job, cancel_requested=True))
    if job.state not in ACTIVE:
        take_step(state, job_id, Step.CANCEL, now)
    return True


def set_pending_reason(state: State, jobs: Iterable[JobId], verdict: Verdict) -> bool:
    """Note why these jobs wait; those that wait no more are left out."""
    waiting = [job for job in jobs if job in state.jobs and state.jobs[job].state is JobState.PENDING]
    state.verdicts.update(dict.fromkeys(waiting, verdict))
    for job in waiting:
        state.index.verdict_set(job)
    return bool(waiting)


def reserve(state: State, reservation: Reservation) -> bool:
    """Refused are reservations that `validate` would find fault with: a policy's mistake must not damage the state."""
    job = state.jobs.get(reservation.job)
    if job is None or job.state is not JobState.PENDING or state.reservations.get(job.id) == reservation:
        return False
    taken = {device for other in state.reservations.values() if other.job != job.id for device in other.devices}
    all_known = all(device in state.devices for device in reservation.devices)
    if not all_known or not taken.isdisjoint(reservation.devices):
        return False
    if len(set(reservation.devices)) != len(reservation.devices) or len(reservation.devices) != job.device_count:
        return False
    if not job.spreads(state.devices[d] for d in reservation.devices):
        return False
    state.reservations[job.id] = reservation
    return True


def requeue_job(state: State, requeue: Requeue, now: float) -> bool:
    """Take the job back to the queue, with what its retry rule changes of it."""
    if not take_step(state, requeue.job, Step.REQUEUE, now):
        return False
    job = state.jobs[requeue.job]
    job = replace(job, alone=job.alone or requeue.alone, exit_code=None, ran_out_of=None)
    if requeue.rule in job.retry:
        before = job.retried or (0,) * len(job.retry)
        job = replace(job, retried=tuple(n + (one == requeue.rule) for one, n in zip(job.retry, before, strict=True)))
    if requeue.memory is not None:
        job = replace(job, declared_memory=requeue.memory)
    if requeue.not_before is not None:
        job = replace(job, eligible=False, eligible_at=None, not_before=requeue.not_before)
    put_job(state, job)
    return True
