"""Devices that a user has to himself from one moment to another: an advanced reservation, as Slurm calls it.

Its devices are chosen when it is made. Only jobs of its user start on them while it lasts, and before it only jobs that will have
ended when it begins. Two bookings never have a device at the same time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import NewType

from gpuq.core.state.constraints import DeviceConstraints
from gpuq.core.state.device import Device, DeviceId, HostId
from gpuq.core.state.device_names import natural_order

BookingId = NewType("BookingId", int)

LEAST_COUNTED_S = 3600.0
"""For its user's limit a booking that is to begin lasts so long at least: until then no job starts there that is not known to
have ended, however short the booking is. So the limit also bounds how many there are."""


@dataclass(frozen=True, slots=True)
class Booking:
    """`devices` are sorted by id; times are Unix seconds. `by` made it, for `user`."""

    id: BookingId
    user: str
    by: str
    devices: tuple[DeviceId, ...]
    from_at: float
    until_at: float

    def meets(self, from_at: float, until_at: float) -> bool:
        """Whether it lasts at some moment between these."""
        return self.from_at < until_at and from_at < self.until_at

    def later(self, by_s: float) -> Booking:
        """The booking by a clock that is so many seconds ahead."""
        return replace(self, from_at=self.from_at + by_s, until_at=self.until_at + by_s)


@dataclass(frozen=True, slots=True)
class BookingRequest:
    """So many devices that meet the constraints, for `user` between two moments. `most_device_hours` is what all bookings of the
    user, this one included, may add up to; None: no limit. `within_quota` says whether the user's quota of devices limits it."""

    user: str
    by: str
    count: int
    from_at: float
    until_at: float
    constraints: DeviceConstraints | None = None
    most_device_hours: float | None = None
    within_quota: bool = False

    def allowed(self, devices: Iterable[Device]) -> list[Device]:
        """Those of the devices that meet the constraints."""
        return [one for one in devices if self.constraints is None or self.constraints.unmet(one) is None]

    def conflicts(self, bookings: Iterable[Booking]) -> list[Booking]:
        """Those of the bookings that last at the same time, the first to begin first."""
        found = (booking for booking in bookings if booking.meets(self.from_at, self.until_at))
        return sorted(found, key=lambda booking: (booking.from_at, booking.id))

    @property
    def device_hours(self) -> float:
        """What it counts for the limit."""
        return self.count * max(LEAST_COUNTED_S, self.until_at - self.from_at) / 3600


def choose_devices(
    request: BookingRequest, devices: Iterable[Device], bookings: Iterable[Booking], busy: Collection[DeviceId]
) -> tuple[DeviceId, ...] | None:
    """The devices for a new booking, sorted by id; None where fewer are free than it asks for.

    Of as few hosts as possible; among hosts that have enough, of that where the fewest are busy now, and then of the one that has
    the fewest to give.
    """
    taken = {device for booking in request.conflicts(bookings) for device in booking.devices}
    free: dict[HostId, list[Device]] = defaultdict(list)
    for device in request.allowed(devices):
        if device.id not in taken:
            free[device.host].append(device)
    for of_host in free.values():
        of_host.sort(key=lambda device: (device.id in busy, natural_order(device.index), device.id))

    def preference(host: HostId) -> tuple[int, int, HostId]:
        first = free[host][: request.count]
        if len(first) == request.count:
            return sum(device.id in busy for device in first), len(free[host]), host
        return request.count, -len(free[host]), host  # the larger its part, the fewer hosts

    ordered = [device.id for host in sorted(free, key=preference) for device in free[host]]
    return tuple(sorted(ordered[: request.count])) if len(ordered) >= request.count else None


def booked_at_once(request: BookingRequest, bookings: Iterable[Booking]) -> int:
    """The most devices that the request's user would have booked at one moment of it, the request included."""
    others = [booking for booking in request.conflicts(bookings) if booking.user == request.user]
    # It is highest where one begins.
    moments = {request.from_at, *(booking.from_at for booking in others if booking.from_at > request.from_at)}
    at_once = (sum(len(one.devices) for one in others if one.from_at <= at < one.until_at) for at in moments)
    return request.count + max(at_once)


def booked_hours(bookings: Iterable[Booking], user: str, now: float) -> float:
    """Device-hours that a user has booked from now on, as they count for the limit."""
    return sum(
        len(booking.devices)
        * max(0.0 if booking.from_at <= now else LEAST_COUNTED_S, booking.until_at - max(now, booking.from_at))
        / 3600
        for booking in bookings
        if booking.user == user
    )
