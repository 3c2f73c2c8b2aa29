"""What bookings say of the start of a job: may it start on a device that a user has booked?

While a booking lasts, only jobs of its user start there. Before, a job of another starts if it will have ended by then: by its
time limit, else by the 90th percentile of its forecast. One of which neither is known does not start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpuq.core.scheduling.cache import PassCache
from gpuq.core.state.actions import EndBooking, Stop
from gpuq.core.state.attempt import StopReason
from gpuq.core.state.booking import Booking
from gpuq.core.state.device import DeviceId
from gpuq.core.state.forecast import Forecast
from gpuq.core.state.job import Job, JobId, JobState
from gpuq.core.state.state import State
from gpuq.core.state.verdict import Numbers, Rule, Verdict


class BookedDevices:
    """The bookings as one pass sees them."""

    def __init__(self, cache: PassCache, now: float) -> None:
        self._cache, self._now = cache, now

    def refusal(self, job: Job, device: DeviceId) -> Verdict | None:
        """Why bookings do not let the job start on the device now; None if they do.

        Until a booking ends or is cancelled, which counts as a change of its devices, a refusal stays one. That there is none
        may end as time passes: see `may_end`.
        """
        index = self._cache.device_index
        bookings = index.booked.get(device)
        if not bookings:
            return None
        forecast = self._cache.forecast_alone(job, index.snapshots[device].device)
        return refused_by_bookings(job, forecast, device, bookings, self._now)

    def may_end(self, job: Job, device: DeviceId) -> bool:
        """Whether a job that may start on the device now may not later, because a booking of another user is to begin."""
        return any(booking.user != job.owner for booking in self._cache.device_index.booked.get(device, ()))


def refused_by_bookings(
    job: Job, forecast: Forecast, device: DeviceId, bookings: Iterable[Booking], now: float
) -> Verdict | None:
    """The verdict by which these bookings of the device, the first to begin first, keep the job from starting now."""
    lasts_s = job.time_limit_s if job.time_limit_s is not None else forecast.duration_p90_s
    booking = next((one for one in bookings if one.user != job.owner and one.until_at > now), None)
    if booking is None or (lasts_s is not None and now + lasts_s <= booking.from_at):
        return None
    numbers: Numbers = (
        ("booking", booking.id),
        ("user", booking.user),
        ("from_at", booking.from_at),
        ("until_at", booking.until_at),
        ("lasts_s", lasts_s),
    )
    return Verdict(False, Rule.BOOKED, device, numbers)


def end_bookings(state: State, now: float) -> Iterator[EndBooking]:
    """The ends of bookings whose time is over."""
    return (EndBooking(booking.id) for booking in state.bookings.values() if booking.until_at <= now)


def stop_for_bookings(state: State, now: float) -> Iterator[Stop]:
    """When a booking has begun, running jobs of others that allow preemption make room. The rest runs to its end."""
    there: set[JobId] = set()
    for booking in state.bookings.values():
        if booking.from_at <= now < booking.until_at:
            residents = {attempt.id.job for device in booking.devices for attempt in state.residents_of(device)}
            there |= {id_ for id_ in residents if state.jobs[id_].owner != booking.user}
    for job in (state.jobs[id_] for id_ in sorted(there)):
        if (
            job.preemptible
            and job.state is JobState.RUNNING
            and not job.cancel_requested
            and job.id not in state.gang_ends
        ):
            attempts = state.attempts_of(job)
            yield from (Stop(one.id, StopReason.PREEMPTED) for one in attempts if one.stopping is None)
