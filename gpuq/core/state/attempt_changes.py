"""Changes of attempts: their launch, what becomes of them while they run, and what their end means for the job.

All that change a state return whether anything changed.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from gpuq.core.state.actions import Launch, Revise
from gpuq.core.state.attempt import Attempt, AttemptId, Ending, StopReason, opened, served_s, started
from gpuq.core.state.device import Device
from gpuq.core.state.events import Exited, Started
from gpuq.core.state.host_changes import note_answered, note_unanswered
from gpuq.core.state.job import Job
from gpuq.core.state.job_changes import take_step, update_dependents
from gpuq.core.state.quota import add_served
from gpuq.core.state.state import State, add_to_devices, put_attempt, put_job
from gpuq.core.state.transitions import Step, gravest, next_state
from gpuq.core.state.usage import UNUSED

# A job that fails so soon after a pause may have failed because of it: a connection or a watchdog of its own ran out of time.
_AFTER_PAUSE_S = 60.0
# A job that loses its host or device so soon after its start may be the cause of it.
_EARLY_S = 60.0


def launch_attempts(state: State, launch: Launch, now: float) -> bool:
    """Refused are attempts that are not the next of their job, or not one for each of its hosts, and a job that may not start."""
    attempts = launch.attempts
    first = attempts[0].id
    job = state.jobs.get(first.job)
    if job is None or first.number != state.next_attempt(job) or next_state(job.state, Step.LAUNCH) is None:
        return False
    if not job.eligible:
        return False
    if [attempt.id for attempt in attempts] != [AttemptId(job.id, first.number + n) for n in range(job.host_count)]:
        return False
    take_step(state, job.id, Step.LAUNCH, now)
    put_job(state, replace(state.jobs[job.id], attempt=first.number))
    for attempt in attempts:
        put_attempt(state, attempt)
        add_to_devices(state, attempt)
    for paused in launch.pauses:
        pause(state, paused, first, now)
    return True


def record_start(state: State, event: Started, now: float) -> bool:
    """Only the first report of a start counts."""
    attempt = state.attempts.get(event.attempt)
    if attempt is None or attempt.started_at is not None:
        return False
    put_attempt(state, replace(started(attempt, event.at, now), last_reported=now, revoking=False))
    note_answered(state, attempt.host)
    # The job runs once all its attempts do: until then the others may be claimed.
    if all(one.started_at is not None for one in state.attempts_of(state.jobs[event.attempt.job])):
        take_step(state, event.attempt.job, Step.START, now)
        update_dependents(state, state.jobs[event.attempt.job])
    return True


def stop_attempt(state: State, attempt_id: AttemptId, reason: StopReason, now: float) -> bool:
    """A paused attempt goes on, so that it can end itself. Only the first reason counts."""
    attempt = state.attempts.get(attempt_id)
    if attempt is None or attempt.stopping is not None:
        return False
    resume(state, attempt_id, now)  # a process that stands still could not end itself
    put_attempt(state, replace(state.attempts[attempt_id], stopping=reason))
    take_step(state, attempt_id.job, Step.STOP, now)
    return True


def warn_idle(state: State, attempt_id: AttemptId, now: float) -> bool:
    """Note that its user was warned."""
    attempt = state.attempts.get(attempt_id)
    if attempt is None:
        return False
    put_attempt(state, replace(attempt, warned_at=now))
    return True


def open_to_partners(state: State, attempt_id: AttemptId, promised: int) -> bool:
    """Refused is a promise larger than the one at the launch."""
    attempt = state.attempts.get(attempt_id)
    if attempt is None or attempt.opened or any(promised > before for before in attempt.promised):
        return False
    put_attempt(state, opened(attempt, promised))
    return True


def revise(state: State, item: Revise) -> bool:
    """Refused is what would promise more than a device has, or take the right to share from one that shares."""
    attempt = state.attempts.get(item.attempt)
    if attempt is None or attempt.gang is not None or len(item.promised) != len(attempt.devices):
        return False
    for device, promised in zip(attempt.devices, item.promised, strict=True):
        given = state.promised_on(device, but=attempt.id)
        joined = len(state.residents[device]) > 1
        if promised + given > state.devices[device].total_memory or (joined and not item.shares):
            return False
    revised = replace(attempt, forecast=item.forecast, shares=item.shares, promised=item.promised)
    put_attempt(state, replace(revised, revised=True, opened=False))
    return True


def pause(state: State, attempt_id: AttemptId, other: AttemptId, now: float) -> bool:
    """Refused where it would leave neither of the two running."""
    attempt, runs = state.attempts.get(attempt_id), state.attempts.get(other)
    if attempt is None or runs is None or attempt.paused_for is not None or runs.paused_for is not None:
        return False
    if attempt.stopping is not None or set(attempt.devices).isdisjoint(runs.devices):
        return False
    put_attempt(state, replace(attempt, paused_for=other, paused_at=now))
    return True


def resume(state: State, attempt_id: AttemptId, now: float) -> bool:
    """Refused for an attempt that is not paused."""
    attempt = state.attempts.get(attempt_id)
    if attempt is None or attempt.paused_for is None:
        return False
    put_attempt(state, replace(attempt, paused_for=None, paused_at=None, resumed_at=now))
    return True


def revoke(state: State, attempt_id: AttemptId) -> bool:
    """Note that the order to start it is being taken back."""
    attempt = state.attempts.get(attempt_id)
    if attempt is None or attempt.revoking:
        return False
    put_attempt(state, replace(attempt, revoking=True))
    return True


def end_attempt(state: State, event: Exited, now: float) -> bool:
    """Free its devices, charge its owner, and take its job where the end leads. Only the first report of an end counts."""
    attempt = state.attempts.pop(event.attempt, None)
    if attempt is None:
        return False
    job = state.jobs[event.attempt.job]
    state.index.attempt_changed(attempt, None, job)
    _free_devices(state, attempt, now)
    step = job_step(event, attempt, job)
    if attempt.revoking and attempt.started_at is None and event.instance is None:
        note_unanswered(state, attempt.host, now)
    # An attempt that never ran used nothing, and says nothing about the job.
    if step is not Step.REQUEUE:
        served = served_s(attempt, now)
        state.usage[job.owner] = state.usage.get(job.owner, UNUSED).after(served, now)
        if attempt.started_at is not None:
            for account in job.accounts:
                add_served(state.served.setdefault(account, {}), attempt.started_at, now, len(attempt.devices))
        after_pause = attempt.paused_for is not None or now - (attempt.resumed_at or -inf) <= _AFTER_PAUSE_S
        job = replace(
            job,
            # A dispatcher that began after a partner had ended knows of it from the host alone.
            had_partner=attempt.had_partner or bool(event.measurement.partners),
            served_s=job.served_s + served,
            failed_after_pause=after_pause and step is Step.FAIL,
            tried=job.tried or attempt.trial,
        )
        put_job(state, with_end(job, attempt, event, state.devices[attempt.devices[0]]))
    if attempt.gang is not None:
        step = gravest(step, state.gang_ends.pop(job.id, Step.COMPLETE))
        if state.attempts_of(job):
            state.gang_ends[job.id] = step
            return True
    if step is not Step.REQUEUE:
        put_job(state, _as_it_may_wait_again(state.jobs[job.id], step, now - attempt.launched_at))
    return take_step(state, job.id, step, now)


def _free_devices(state: State, attempt: Attempt, now: float) -> None:
    """Take the attempt, which has ended, off its devices. Those that stood still for it go on."""
    for device in attempt.devices:
        left = tuple(other for other in state.residents[device] if other != attempt.id)
        if left:
            state.residents[device] = left
        else:
            del state.residents[device]
        for other in left:
            if state.attempts[other].paused_for == attempt.id:
                resume(state, other, now)


def _as_it_may_wait_again(job: Job, step: Step, took_s: float) -> Job:
    """The job after an end `took_s` after its launch. If it is queued again, it has waited as long as it had at the launch."""
    lost_early = job.lost_early + 1 if step is Step.LOSE and took_s <= _EARLY_S else 0
    ended = next_state(job.state, step)
    if ended is None or next_state(ended, Step.REQUEUE) is None:
        return replace(job, lost_early=lost_early)
    return replace(job, lost_early=lost_early, eligible_at=job.waits_since + took_s)


def with_end(job: Job, attempt: Attempt, event: Exited, device: Device) -> Job:
    """The job with what a retry depends on of this end of an attempt; of a gang over hosts the first end counts that has it."""
    of_device = event.ending is Ending.OUT_OF_MEMORY
    # The memory of a set of CPU cores is the host's.
    if of_device or (event.ending is Ending.HOST_OUT_OF_MEMORY and device.backend == "cpu"):
        had = max(*attempt.promised, event.measurement.peak_memory_bytes or 0)
        return job if job.ran_out_of is not None else replace(job, ran_out_of=had)
    if event.exit_code and attempt.stopping is None and job.exit_code is None:
        return replace(job, exit_code=event.exit_code)
    return job


def job_step(event: Exited, attempt: Attempt, job: Job) -> Step:
    """What the ending that the worker reported means for the job, given what gpuq had ordered."""
    match event.ending:
        case Ending.NEVER_STARTED | Ending.STOPPED if attempt.stopping is StopReason.GANG and not job.cancel_requested:
            return Step.COMPLETE  # what the attempt for which it was stopped means, counts
        case Ending.NEVER_STARTED if attempt.started_at is None:
            return Step.CANCEL if job.cancel_requested else Step.REQUEUE
        case Ending.NEVER_STARTED | Ending.LOST | Ending.DEVICE_FAILED:
            return Step.LOSE
        case Ending.TIMED_OUT:
            return Step.TIME_OUT
        case Ending.OUT_OF_MEMORY | Ending.HOST_OUT_OF_MEMORY:
            return Step.RUN_OUT_OF_MEMORY
        case Ending.STOPPED if attempt.stopping is StopReason.PREEMPTED and not job.cancel_requested:
            return Step.PREEMPT
        case Ending.STOPPED if attempt.stopping is StopReason.TIME_LIMIT and not job.cancel_requested:
            return Step.TIME_OUT
        case Ending.STOPPED if attempt.stopping is not None or job.cancel_requested:
            return Step.CANCEL
        case Ending.STOPPED:  # by its host, whose time was up
            return Step.PREEMPT if job.preemptible else Step.LOSE
        case _:
            return Step.COMPLETE if event.exit_code == 0 else Step.FAIL
