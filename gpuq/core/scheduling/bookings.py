"""What the time says of the start of a job: may it start on a device that a user has booked, or that its host gives back?

While a booking lasts, only jobs of its user start there. Before, a job of another starts if it will have ended by then: by its
time limit, else by the 90th percentile of its forecast. One of which neither is known does not start.

Before a device is given back, it starts: on hosts that are all given back it would else never become known. So does a preemptible
job, which saves its work and goes on elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from gpuq.core.scheduling.cache import PassCache
from gpuq.core.state.actions import EndBooking, Stop
from gpuq.core.state.attempt import StopReason
from gpuq.core.state.booking import Booking
from gpuq.core.state.device import Device, DeviceId
from gpuq.core.state.forecast import Forecast
from gpuq.core.state.job import Job, JobId, JobState
from gpuq.core.state.state import State
from gpuq.core.state.verdict import Numbers, Rule, Verdict

TIME_RULES = frozenset((Rule.BOOKED, Rule.TIME_LEFT))
"""The rules by which the time refuses a job."""


class BookedDevices:
    """The bookings as one pass sees them."""

    def __init__(self, cache: PassCache, now: float) -> None:
        self._cache, self._now = cache, now

    def refusal(self, job: Job, device: DeviceId) -> Verdict | None:
        """Why bookings do not let the job start on the device now; None if they do.

        Until a booking ends or is cancelled, which counts as a change of its devices, a refusal stays one, but its rule may
        change as time passes; and that there is none may end: see `may_change`.
        """
        index = self._cache.device_index
        bookings = index.booked.get(device)
        if bookings is None:
            return None
        known = index.snapshots[device].device
        # A job on several devices ends on all of them at once, so it lasts as long as on the slowest class that it may get.
        classes = [known] if job.device_count == 1 else self._cache.classes_for(job, known.host)
        lasts_s = [_longest_s(job, self._cache.forecast_alone(job, one)) for one in classes]
        return _refused_by_bookings(job, lasts_s, device, bookings, self._now) or _refused_by_end(
            job, lasts_s, known, self._now
        )

    def may_change(self, job: Job, device: DeviceId) -> bool:
        """Whether `refusal` may change as time passes: a booking of another user is to begin, or the device is given back."""
        index = self._cache.device_index
        given_back = index.snapshots[device].device.until_at is not None
        return given_back or any(booking.user != job.owner for booking in index.booked.get(device, ()))


def _refused_by_bookings(
    job: Job, each_s: Collection[float | None], device: DeviceId, bookings: Iterable[Booking], now: float
) -> Verdict | None:
    """The verdict by which these bookings of the device, the first to begin first, keep the job from starting now. `each_s`: how
    long it may last on each class of devices."""
    lasts_s = None if None in each_s else max(filter(None, each_s), default=0.0)
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


def _refused_by_end(job: Job, each_s: Collection[float | None], device: Device, now: float) -> Verdict | None:
    """The verdict by which the job would not have ended when the device is given back."""
    if device.until_at is None:
        return None
    lasts_s, left_s = max(filter(None, each_s), default=None), device.until_at - now
    if left_s > 0 and (job.preemptible or lasts_s is None or lasts_s <= left_s):
        return None
    numbers: Numbers = (("until_at", device.until_at), ("left_s", max(0.0, left_s)), ("lasts_s", lasts_s))
    return Verdict(False, Rule.TIME_LEFT, device.id, numbers)


def _longest_s(job: Job, forecast: Forecast) -> float | None:
    """Seconds within which the job will have ended, as far as one can know; None where nothing is known."""
    return job.time_limit_s if job.time_limit_s is not None else forecast.duration_p90_s


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
