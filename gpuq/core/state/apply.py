"""`apply`, the only function that changes a state.

Every change is an event or an action given to `apply` with the time. It ignores events that are repeated or too late, so a
message delivered twice is harmless, and returns whether anything changed. Actions are applied before they are performed, so a
`Launch` promises the memory at once.
"""

from __future__ import annotations

from gpuq.core.state.actions import (
    Abandon,
    Action,
    Archive,
    EndBooking,
    EndReservation,
    EndWait,
    Launch,
    LeaveUnpaused,
    Lend,
    OpenToPartners,
    Pause,
    Reclaim,
    Requeue,
    Reserve,
    Resume,
    Revise,
    Revoke,
    SetPendingReason,
    Stop,
    WarnIdle,
)
from gpuq.core.state.attempt_changes import (
    end_attempt,
    launch_attempts,
    open_to_partners,
    pause,
    record_start,
    resume,
    revise,
    revoke,
    stop_attempt,
    warn_idle,
)
from gpuq.core.state.booking import Booking
from gpuq.core.state.core_loans import lend, reclaim
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
    JobEdited,
    ModelPublished,
    QuotaRemoved,
    QuotaSet,
    ReleaseRequested,
    Started,
    Submitted,
    WentBack,
    Woke,
)
from gpuq.core.state.host_changes import drain, forget_host, record_report
from gpuq.core.state.job_changes import (
    add_job,
    archive,
    edit_job,
    end_wait,
    request_cancel,
    requeue_job,
    reserve,
    set_pending_reason,
    take_step,
)
from gpuq.core.state.state import State
from gpuq.core.state.transitions import Step


def apply(state: State, item: Event | Action, now: float) -> bool:  # noqa: C901, PLR0912 - one case per noun
    """Change `state` by one event or action. Returns whether it changed anything."""
    match item:
        case Submitted(job=job):
            return add_job(state, job)
        case CancelRequested(job=job_id):
            return request_cancel(state, job_id, now)
        case HoldRequested(job=job_id):
            return take_step(state, job_id, Step.HOLD, now)
        case ReleaseRequested(job=job_id):
            return take_step(state, job_id, Step.RELEASE, now)
        case JobEdited(job=job_id, edit=edit):
            return edit_job(state, job_id, edit)
        case HostDrained(host=host, why=why):
            return drain(state, host, why)
        case HostResumed(host=host):
            return drain(state, host, None)
        case HostForgotten(host=host):
            return forget_host(state, host)
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
            return record_report(state, item, now)
        case Started():
            return record_start(state, item, now)
        case Exited():
            return end_attempt(state, item, now)
        case Launch():
            return launch_attempts(state, item, now)
        case SetPendingReason(jobs=jobs, verdict=verdict):
            return set_pending_reason(state, jobs, verdict)
        case Stop(attempt=attempt_id, reason=reason):
            return stop_attempt(state, attempt_id, reason, now)
        case WarnIdle(attempt=attempt_id):
            return warn_idle(state, attempt_id, now)
        case OpenToPartners(attempt=attempt_id, promised=promised):
            return open_to_partners(state, attempt_id, promised)
        case Revise():
            return revise(state, item)
        case Pause(attempt=attempt_id, paused_for=other):
            return pause(state, attempt_id, other, now)
        case Resume(attempt=attempt_id):
            return resume(state, attempt_id, now)
        case LeaveUnpaused(kind=kind):
            return state.unpausable.setdefault(kind, now) == now
        case Lend(attempt=attempt_id, cores=cores):
            return lend(state, attempt_id, cores)
        case Reclaim(attempt=attempt_id, cores=cores):
            return reclaim(state, attempt_id, cores)
        case Revoke(attempt=attempt_id):
            return revoke(state, attempt_id)
        case Requeue():
            return requeue_job(state, item, now)
        case EndWait(jobs=jobs):
            return end_wait(state, jobs, now)
        case Abandon(job=job_id):
            return take_step(state, job_id, Step.CANCEL, now)
        case Archive(job=job_id):
            return archive(state, job_id)
        case Reserve(reservation=reservation):
            return reserve(state, reservation)
        case EndReservation(job=job_id):
            return state.reservations.pop(job_id, None) is not None
        case WentBack(first_attempt=first):
            return _renumber(state, first)
        case ModelPublished() | Woke():
            return False


def _renumber(state: State, first_attempt: int) -> bool:
    if first_attempt <= state.first_attempt:
        return False
    state.first_attempt = first_attempt
    return True


def _book(state: State, booking: Booking) -> bool:
    """Refused is one that another has a device of: the record, which made both, has lost the other's end."""
    of_same_time = (one for one in state.bookings.values() if one.meets(booking.from_at, booking.until_at))
    if any(not set(one.devices).isdisjoint(booking.devices) for one in of_same_time):
        return False
    state.bookings[booking.id] = booking
    return True
