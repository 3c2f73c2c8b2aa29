"""Bookings in the record: make one, cancel one, read them.

A booking is made in one transaction, which holds the lock on `numbers`: of two that come at once, the second finds the devices of
the first taken. The dispatcher gets a request with it, as it does for a job.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, func, insert, select, update

from gpuq.adapters.store import quotas, submit
from gpuq.adapters.store.rows import clean, device_row, to_json
from gpuq.adapters.store.schema import attempts, bookings, devices
from gpuq.core.state.booking import Booking, BookingId, BookingRequest, booked_at_once, booked_hours, choose_devices
from gpuq.core.state.device import Device, DeviceId
from gpuq.core.state.device_names import DeviceNames
from gpuq.core.state.quota import Account, Quotas, QuotaScope, quota_of
from gpuq.errors import Conflict, NeverFits, NotFound, OverQuota
from gpuq.format import rfc3339
from gpuq.messages.codec import plain
from gpuq.messages.verdicts import constraint


def add(connection: Connection, wanted: BookingRequest, at: float) -> Booking:
    """Choose the devices, and add the booking and a `book` request. Raises what `made` and `check_quota` do."""
    submit.lock(connection)
    known = [
        device_row(row._asdict()) for row in connection.execute(select(devices).where(devices.c.forgotten.is_(None)))
    ]
    live = connection.execute(select(attempts.c.devices).where(attempts.c.ended_at.is_(None))).scalars()
    busy = {DeviceId(device) for found in live for device in msgspec.json.decode(found)}
    number = connection.execute(select(func.coalesce(func.max(bookings.c.id), 0) + 1)).scalar_one()
    others = read(connection, at)
    if wanted.within_quota:
        check_quota(wanted, others, {quota.account: quota for quota in quotas.read(connection)})
    booking = made(BookingId(number), wanted, known, others, busy, at)
    values = {**plain(booking), "user": clean(booking.user), "devices": to_json(booking.devices)}
    connection.execute(insert(bookings), [values])
    _request(connection, "book", wanted.by, at, {"booking": plain(booking)})
    return booking


def cancel(connection: Connection, booking: BookingId, by: str, at: float) -> None:
    """End the booking now, and add a `cancel_booking` request. Raises NotFound for one that is over, or never was."""
    submit.lock(connection)
    open_ = (bookings.c.id == booking) & bookings.c.cancelled_at.is_(None) & (bookings.c.until_at > at)
    if connection.execute(update(bookings).where(open_).values(cancelled_at=at)).rowcount != 1:
        raise not_found(booking)
    _request(connection, "cancel_booking", by, at, {"booking": booking})


def read(connection: Connection, since: float) -> list[Booking]:
    """The bookings that are not cancelled and last beyond `since`, the first to begin first."""
    columns = [column for column in bookings.c if column is not bookings.c.cancelled_at]
    query = select(*columns).where(bookings.c.cancelled_at.is_(None), bookings.c.until_at > since)
    rows = connection.execute(query.order_by(bookings.c.from_at, bookings.c.id))
    return [Booking(**{**row._mapping, "devices": tuple(msgspec.json.decode(row.devices))}) for row in rows]


def made(
    number: BookingId,
    wanted: BookingRequest,
    known: Sequence[Device],
    others: Iterable[Booking],
    busy: Collection[DeviceId],
    now: float,
) -> Booking:
    """The booking under this number.

    Raises NeverFits where too few of the known devices meet its constraints, Conflict where other bookings have too many of them,
    which it names, and OverQuota where the user would have too much.
    """
    others, names = list(others), DeviceNames(known)
    allowed = wanted.allowed(known)
    if len(allowed) < wanted.count:
        lacking = None if wanted.constraints is None else wanted.constraints.lacking(known)
        why = f": {constraint(dict(lacking))}" if lacking else ""
        raise NeverFits(f"{wanted.count} devices are asked for, and {len(allowed)} of those known may be it{why}.")
    most, hours = wanted.most_device_hours, booked_hours(others, wanted.user, now) + wanted.device_hours
    if most is not None and hours > most:
        raise OverQuota(
            f"User {wanted.user} would have {hours:g} device-hours reserved; {most:g} are the limit.",
            fix="Ask for less, or ask an operator: `user_device_hours` under [bookings] is the limit of users.",
        )
    chosen = choose_devices(wanted, known, others, busy)
    if chosen is None:
        ids = {device.id for device in allowed}
        in_the_way = [one for one in wanted.conflicts(others) if not ids.isdisjoint(one.devices)]
        taken = ids & {device for one in in_the_way for device in one.devices}
        reserved = "; ".join(
            f"{', '.join(names.of(device) for device in one.devices if device in ids)} by {one.user} from "
            f"{rfc3339(one.from_at)} to {rfc3339(one.until_at)} (reservation {one.id})"
            for one in in_the_way
        )
        raise Conflict(
            f"{wanted.count} devices are asked for, and {len(ids - taken)} are free all that time; reserved are {reserved}.",
            fix="Choose another time or fewer devices; `gpuq reservations` lists what is taken.",
        )
    return Booking(number, wanted.user, wanted.by, chosen, wanted.from_at, wanted.until_at)


def check_quota(wanted: BookingRequest, others: Iterable[Booking], limits: Quotas) -> None:
    """Raises OverQuota where the user would have more devices booked at a time than the quota of jobs allows."""
    quota = quota_of(Account(QuotaScope.USER, wanted.user), limits)
    devices, most = booked_at_once(wanted, others), None if quota is None else quota.running_devices
    if most is not None and devices > most:
        raise OverQuota(
            f"User {wanted.user} would have {devices} devices reserved at a time; {most} are the quota.",
            fix="Ask for fewer or for another time, or ask an admin for a larger quota: `gpuq quota` shows it.",
        )


def not_found(booking: int) -> NotFound:
    """The error for a booking that is over, or never was."""
    return NotFound(f"There is no reservation {booking}, or it is over.", fix="`gpuq reservations` lists them.")


def _request(connection: Connection, verb: str, by: str, at: float, body: dict[str, Any]) -> None:
    submit.add_requests(connection, [{"verb": verb, "job": None, "by": by, "at": at, "body": to_json(body)}])
