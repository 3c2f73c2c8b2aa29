"""The state of the queue and the devices, and `apply`, the only function that changes it.

Every change is an event or an action given to `apply` with the time; `decide` and `needed_forecasts` only read. `apply` ignores
events that are repeated or too late, so a message delivered twice is harmless, and returns whether anything changed.

A job stays in the state until it is archived; the database keeps its past. Actions are applied before they are performed, so a
`Launch` promises the memory at once. What passes look up is in `index`, so their time depends on what has changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from gpuq.core.state.actions import (
    Abandon,
    Action,
    Archive,
    EndBooking,
    EndReservation,
    EndWait,
    Launch,
    OpenToPartners,
    Requeue,
    Reserve,
    Revoke,
    SetPendingReason,
    Stop,
    WarnIdle,
)
from gpuq.core.state.attempt import Attempt, AttemptId, Ending, StopReason, opened, served_s
from gpuq.core.state.booking import Booking, BookingId
from gpuq.core.state.dependency import Dependency
from gpuq.core.state.device import Device, DeviceId, Host, HostId, Reading
from gpuq.core.state.events import (
    BookingCancelled,
    BookingMade,
    CancelRequested,
    Event,
    Exited,
    HoldRequested,
    HostDrained,
    HostForgotten,
    HostReported,
    HostResumed,
    ModelPublished,
    QuotaRemoved,
    QuotaSet,
    ReleaseRequested,
    Started,
    Submitted,
    WentBack,
    Woke,
)
from gpuq.core.state.index import Index, last_heartbeat
from gpuq.core.state.job import ACTIVE, ENDED, WAITING, Job, JobId, JobState
from gpuq.core.state.quota import Account, Hours, Quota, add_served
from gpuq.core.state.reservation import Reservation
from gpuq.core.state.transitions import Step, gravest, next_state
from gpuq.core.state.usage import UNUSED, Usage
from gpuq.core.state.verdict import Verdict


@dataclass
class State:
    """Jobs not yet archived, attempts not yet ended, devices, hosts, latest readings, pending reasons and reservations.

    `residents` and `index` are derived, so a state can be rebuilt from its other fields; attempts are to be in the order of their
    launches then. Afterwards only `apply` changes it.
    """

    jobs: dict[JobId, Job] = field(default_factory=dict)
    attempts: dict[AttemptId, Attempt] = field(default_factory=dict)
    devices: dict[DeviceId, Device] = field(default_factory=dict)
    readings: dict[DeviceId, Reading] = field(default_factory=dict)
    hosts: dict[HostId, Host] = field(default_factory=dict)
    drained: dict[HostId, str] = field(default_factory=dict)
    """Why an operator keeps new jobs off these hosts."""
    verdicts: dict[JobId, Verdict] = field(default_factory=dict)
    usage: dict[str, Usage] = field(default_factory=dict)
    quotas: dict[Account, Quota] = field(default_factory=dict)
    served: dict[Account, Hours] = field(default_factory=dict)
    """Device-seconds that ended attempts had, by account and hour."""
    reservations: dict[JobId, Reservation] = field(default_factory=dict)
    bookings: dict[BookingId, Booking] = field(default_factory=dict)
    """Those that are to begin or last."""
    first_attempt: int = 1
    """The lowest number of a new attempt: see `WentBack`."""
    gang_ends: dict[JobId, Step] = field(default_factory=dict)
    """What the attempts that ended mean for jobs of which others on other hosts have not ended yet: the gravest of it."""
    residents: dict[DeviceId, tuple[AttemptId, ...]] = field(init=False, default_factory=dict)
    index: Index = field(init=False, default_factory=Index, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Build `residents` and `index` from the other fields."""
        for device in self.devices.values():
            self.index.device_changed(None, device)
        for host in sorted(self.hosts.values(), key=lambda host: host.last_seen):
            self.index.host_reported(host.id, host.last_seen)
        for job in self.jobs.values():
            self.index.job_changed(None, job)
        for job in self.jobs.values():
            _note_if_doomed(self, job)
        for job_id in self.verdicts:
            self.index.verdict_set(job_id)
        for attempt in sorted(self.attempts.values(), key=last_heartbeat):
            self.index.attempt_changed(None, attempt, self.jobs[attempt.id.job])
        for attempt in list(self.attempts.values()):
            _add_to_devices(self, attempt)

    def next_attempt(self, job: Job) -> int:
        """The number of the job's next attempt, of a gang over hosts that of the first one."""
        return max(job.attempt + job.host_count, self.first_attempt) if job.attempt else self.first_attempt

    def attempts_of(self, job: Job) -> list[Attempt]:
        """The live attempts of a job: at most one on each host of its last start."""
        numbers = range(job.attempt, job.attempt + job.host_count)
        return [self.attempts[id_] for number in numbers if (id_ := AttemptId(job.id, number)) in self.attempts]

    def residents_of(self, device: DeviceId) -> tuple[Attempt, ...]:
        """The attempts now on `device`, oldest first."""
        return tuple(self.attempts[attempt] for attempt in self.residents.get(device, ()))


def apply(state: State, item: Event | Action, now: float) -> bool:  # noqa: C901, PLR0912 - one case per noun
    """Change `state` by one event or action. Returns whether it changed anything."""
    match item:
        case Submitted(job=job):
            return _add_job(state, job)
        case CancelRequested(job=job_id):
            return _request_cancel(state, job_id, now)
        case HoldRequested(job=job_id):
            return _step(state, job_id, Step.HOLD, now)
        case ReleaseRequested(job=job_id):
            return _step(state, job_id, Step.RELEASE, now)
        case HostDrained(host=host, why=why):
            return _drain(state, host, why)
        case HostResumed(host=host):
            return _drain(state, host, None)
        case HostForgotten(host=host):
            return _forget_host(state, host)
        case QuotaSet(quota=quota):
            changed = state.quotas.get(quota.account) != quota
            state.quotas[quota.account] = quota
            return changed
        case QuotaRemoved(account=account):
            return state.quotas.pop(account, None) is not None
        case BookingMade(booking=booking):
            return _book(state, booking)
        case BookingCancelled(booking=booking_id) | EndBooking(booking=booking_id):
            return state.bookings.pop(booking_id, None) is not None
        case HostReported():
            return _record_report(state, item, now)
        case Started():
            return _record_start(state, item, now)
        case Exited():
            return _end_attempt(state, item, now)
        case Launch(attempts=attempts):
            return _launch(state, attempts, now)
        case SetPendingReason(jobs=jobs, verdict=verdict):
            return _set_pending_reason(state, jobs, verdict)
        case Stop(attempt=attempt_id, reason=reason):
            return _stop(state, attempt_id, reason, now)
        case WarnIdle(attempt=attempt_id):
            return _warn(state, attempt_id, now)
        case OpenToPartners(attempt=attempt_id, promised=promised):
            return _open(state, attempt_id, promised)
        case Revoke(attempt=attempt_id):
            return _revoke(state, attempt_id)
        case Requeue():
            return _requeue(state, item, now)
        case EndWait(jobs=jobs):
            return _end_wait(state, jobs, now)
        case Abandon(job=job_id):
            return _step(state, job_id, Step.CANCEL, now)
        case Archive(job=job_id):
            return _archive(state, job_id)
        case Reserve(reservation=reservation):
            return _reserve(state, reservation)
        case EndReservation(job=job_id):
            return state.reservations.pop(job_id, None) is not None
        case WentBack(first_attempt=first):
            return _renumber(state, first)
        case ModelPublished() | Woke():
            return False


# --- jobs ----------------------------------------------------------------------------------------------------------


def _renumber(state: State, first_attempt: int) -> bool:
    if first_attempt <= state.first_attempt:
        return False
    state.first_attempt = first_attempt
    return True


def _add_job(state: State, job: Job) -> bool:
    if job.id in state.jobs:
        return False
    _put_job(state, job)
    return True


def _put_job(state: State, job: Job) -> None:
    state.index.job_changed(state.jobs.get(job.id), job)
    state.jobs[job.id] = job
    _note_if_doomed(state, job)


def _note_if_doomed(state: State, job: Job) -> None:
    """A dependency on jobs that are all archived would have been dropped if it held."""
    if job.after and job.state in WAITING and any(not _is_open(state, dependency) for dependency in job.after):
        state.index.doomed[job.id] = None


def _is_open(state: State, dependency: Dependency) -> bool:
    """Whether one of the jobs that it is on has not been archived."""
    return any(job in state.jobs for job in dependency.jobs)


def _archive(state: State, job_id: JobId) -> bool:
    job = state.jobs.pop(job_id, None)
    if job is None:
        return False
    state.verdicts.pop(job_id, None)
    state.index.job_changed(job, None)
    _tell_dependents(state, job)
    first = next(iter(state.index.named.get((job.owner, job.name or ""), ())), None)
    if first is not None and state.jobs[first].singleton:
        _change_wait(state, state.jobs[first])
    return True


def _tell_dependents(state: State, ended: Job) -> None:
    """Update what other jobs wait for after the final end of one."""
    for dependency in list(state.index.dependencies_on(ended.id)):
        is_last = not _is_open(state, dependency)
        left = dependency.after_end(ended.id, ended.state, is_last=is_last)
        if left == dependency and not is_last:
            continue
        for waiting in [state.jobs[job] for job in state.index.dependents[dependency]]:
            after = (left if one == dependency else one for one in waiting.after)
            _change_wait(state, replace(waiting, after=tuple(dict.fromkeys(one for one in after if one is not None))))


def _change_wait(state: State, job: Job) -> None:
    """Put a job of which something has changed that it waits for: its verdict does not hold any more."""
    _put_job(state, job)
    if job.state is JobState.PENDING:
        state.verdicts.pop(job.id, None)
        state.index.verdict_dropped(job.id)


def _end_wait(state: State, jobs: Iterable[JobId], now: float) -> bool:
    ready = [state.jobs[job] for job in jobs if job in state.jobs and state.index.awaits_moment(state.jobs[job])]
    for job in ready:
        _change_wait(state, replace(job, eligible=True, eligible_at=now, not_before=None))
    return bool(ready)


def _step(state: State, job_id: JobId, step: Step, now: float) -> bool:
    """Take the job to the state that this step leads to. False, and nothing changes, if the step is illegal."""
    job = state.jobs.get(job_id)
    next_ = None if job is None else next_state(job.state, step)
    if job is None or next_ is None:
        return False
    _put_job(state, replace(job, state=next_, since=now))
    if step is not Step.STOP:
        state.verdicts.pop(job_id, None)
    if next_ is not JobState.PENDING:
        # Whatever ended the wait (a launch, a cancel, a hold), the devices are not needed for it any more.
        state.reservations.pop(job_id, None)
    return True


def _request_cancel(state: State, job_id: JobId, now: float) -> bool:
    job = state.jobs.get(job_id)
    if job is None or job.state in ENDED or job.cancel_requested:
        return False
    _put_job(state, replace(job, cancel_requested=True))
    if job.state not in ACTIVE:
        _step(state, job_id, Step.CANCEL, now)
    return True


def _set_pending_reason(state: State, jobs: Iterable[JobId], verdict: Verdict) -> bool:
    waiting = [job for job in jobs if job in state.jobs and state.jobs[job].state is JobState.PENDING]
    state.verdicts.update(dict.fromkeys(waiting, verdict))
    for job in waiting:
        state.index.verdict_set(job)
    return bool(waiting)


def _reserve(state: State, reservation: Reservation) -> bool:
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


def _book(state: State, booking: Booking) -> bool:
    """Refused is one that another has a device of: the record, which made both, has lost the other's end."""
    of_same_time = (one for one in state.bookings.values() if one.meets(booking.from_at, booking.until_at))
    if any(not set(one.devices).isdisjoint(booking.devices) for one in of_same_time):
        return False
    state.bookings[booking.id] = booking
    return True


def _requeue(state: State, requeue: Requeue, now: float) -> bool:
    if not _step(state, requeue.job, Step.REQUEUE, now):
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
    _put_job(state, job)
    return True


# --- attempts ------------------------------------------------------------------------------------------------------


def _launch(state: State, attempts: tuple[Attempt, ...], now: float) -> bool:
    first = attempts[0].id
    job = state.jobs.get(first.job)
    if job is None or first.number != state.next_attempt(job) or next_state(job.state, Step.LAUNCH) is None:
        return False
    if not job.eligible:
        return False
    if [attempt.id for attempt in attempts] != [AttemptId(job.id, first.number + n) for n in range(job.host_count)]:
        return False
    _step(state, job.id, Step.LAUNCH, now)
    _put_job(state, replace(state.jobs[job.id], attempt=first.number))
    for attempt in attempts:
        _put_attempt(state, attempt)
        _add_to_devices(state, attempt)
    return True


def _put_attempt(state: State, attempt: Attempt) -> None:
    state.index.attempt_changed(state.attempts.get(attempt.id), attempt, state.jobs[attempt.id.job])
    state.attempts[attempt.id] = attempt


def _add_to_devices(state: State, attempt: Attempt) -> None:
    """Put the attempt on its devices; all attempts there have had a partner from then on."""
    for device in attempt.devices:
        residents = state.residents[device] = (*state.residents.get(device, ()), attempt.id)
        if len(residents) > 1:
            for resident in residents:
                if not state.attempts[resident].had_partner:
                    _put_attempt(state, replace(state.attempts[resident], had_partner=True))


def _record_start(state: State, event: Started, now: float) -> bool:
    attempt = state.attempts.get(event.attempt)
    if attempt is None or attempt.started_at is not None:
        return False
    # The host's clock may differ from ours: it started after its launch, and before we heard of it.
    started_at = min(max(event.at, attempt.launched_at), now)
    _put_attempt(state, replace(attempt, started_at=started_at, last_reported=now, revoking=False))
    # The job runs once all its attempts do: until then the others may be claimed.
    if all(one.started_at is not None for one in state.attempts_of(state.jobs[event.attempt.job])):
        _step(state, event.attempt.job, Step.START, now)
    return True


def _stop(state: State, attempt_id: AttemptId, reason: StopReason, now: float) -> bool:
    attempt = state.attempts.get(attempt_id)
    if attempt is None or attempt.stopping is not None:
        return False
    _put_attempt(state, replace(attempt, stopping=reason))
    _step(state, attempt_id.job, Step.STOP, now)
    return True


def _warn(state: State, attempt_id: AttemptId, now: float) -> bool:
    attempt = state.attempts.get(attempt_id)
    if attempt is None:
        return False
    _put_attempt(state, replace(attempt, warned_at=now))
    return True


def _open(state: State, attempt_id: AttemptId, promised: int) -> bool:
    attempt = state.attempts.get(attempt_id)
    if attempt is None or attempt.opened or any(promised > before for before in attempt.promised):
        return False
    _put_attempt(state, opened(attempt, promised))
    return True


def _revoke(state: State, attempt_id: AttemptId) -> bool:
    attempt = state.attempts.get(attempt_id)
    if attempt is None or attempt.revoking:
        return False
    _put_attempt(state, replace(attempt, revoking=True))
    return True


def _end_attempt(state: State, event: Exited, now: float) -> bool:
    attempt = state.attempts.pop(event.attempt, None)
    if attempt is None:
        return False
    job = state.jobs[event.attempt.job]
    state.index.attempt_changed(attempt, None, job)
    for device in attempt.devices:
        left = tuple(other for other in state.residents[device] if other != attempt.id)
        if left:
            state.residents[device] = left
        else:
            del state.residents[device]
    step = job_step(event, attempt, job)
    # An attempt that never ran used nothing, and says nothing about the job.
    if step is not Step.REQUEUE:
        served = served_s(attempt, now)
        state.usage[job.owner] = state.usage.get(job.owner, UNUSED).after(served, now)
        if attempt.started_at is not None:
            for account in job.accounts:
                add_served(state.served.setdefault(account, {}), attempt.started_at, now, len(attempt.devices))
        job = replace(job, had_partner=attempt.had_partner, served_s=job.served_s + served)
        _put_job(state, with_end(job, attempt, event, state.devices[attempt.devices[0]]))
    if attempt.gang is not None:
        step = gravest(step, state.gang_ends.pop(job.id, Step.COMPLETE))
        if state.attempts_of(job):
            state.gang_ends[job.id] = step
            return True
    return _step(state, job.id, step, now)


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
        case Ending.STOPPED if attempt.stopping is not None or job.cancel_requested:
            return Step.CANCEL
        case Ending.STOPPED:  # by its host, whose time was up
            return Step.PREEMPT if job.preemptible else Step.LOSE
        case _:
            return Step.COMPLETE if event.exit_code == 0 else Step.FAIL


# --- hosts ---------------------------------------------------------------------------------------------------------


def _drain(state: State, host: HostId, why: str | None) -> bool:
    """Drain the host for this reason, or resume it for None."""
    if state.drained.get(host) == why:
        return False
    if why is None:
        del state.drained[host]
    else:
        state.drained[host] = why
    for device in state.index.devices_of.get(host, ()):
        state.index.touch(device)
    return True


def _forget_host(state: State, host: HostId) -> bool:
    """Remove the host and its devices, and the reservations there. Refused while it has an attempt."""
    devices = list(state.index.devices_of.get(host, ()))
    if any(attempt.host == host for attempt in state.attempts.values()):
        return False
    if not devices and host not in state.hosts and host not in state.drained:
        return False
    for reservation in list(state.reservations.values()):
        if not set(devices).isdisjoint(reservation.devices):
            del state.reservations[reservation.job]
    for device in devices:
        del state.devices[device]
        state.readings.pop(device, None)
    state.hosts.pop(host, None)
    state.drained.pop(host, None)
    state.index.host_forgotten(host)
    return True


def _record_report(state: State, report: HostReported, now: float) -> bool:
    state.hosts[report.host] = Host(report.host, report.boot_id, now, report.instance, report.address)
    for device in report.devices:
        state.index.device_changed(state.devices.get(device.id), device)
        state.devices[device.id] = device
    state.index.host_reported(report.host, now)
    for device_id in state.index.devices_of.get(report.host, ()):
        state.readings.pop(device_id, None)
    # The age of a reading counts from when its report was sent, as the caller gives it in `now`: hosts' clocks may differ.
    state.readings.update({device: replace(reading, at=now) for device, reading in report.readings})
    for resident in report.residents:
        attempt = state.attempts.get(resident.attempt)
        if attempt is not None and attempt.host == report.host:
            seen = replace(attempt, last_reported=now, live_memory=resident.memory_bytes, idle_s=resident.idle_s)
            _put_attempt(state, replace(seen, revoking=False))
    return True
