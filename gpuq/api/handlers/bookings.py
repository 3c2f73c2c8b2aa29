"""Bookings: list them with what still runs there, make one, cancel one. The record chooses the devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from aiohttp import web

from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.row_types import AttemptRow, LineRow
from gpuq.api.context import context_of, reply
from gpuq.api.contract import bodies, params
from gpuq.api.contract.schema import BookingView, StayingJob
from gpuq.api.handlers.submit import constraints_by_id, names_now
from gpuq.api.identity import Role, caller_of
from gpuq.core.state.booking import Booking, BookingRequest
from gpuq.core.state.device_names import DeviceNames
from gpuq.core.state.job import JobId
from gpuq.errors import Conflict, NotPermitted
from gpuq.format import rfc3339, rfc3339_or_none

_DAY_S = 86_400.0
_make_body = msgspec.json.Decoder(bodies.BookingBody)


async def listing(request: web.Request) -> web.Response:
    """The bookings that last or are to begin, the first to begin first."""
    context = context_of(request)
    now, names = context.now(), await names_now(context, await context.read(context.devices))
    found, jobs, attempts = await context.read(_read, context.store, now)
    return reply([_view(booking, names, list(_staying(booking, jobs, attempts)), now) for booking in found])


async def make(request: web.Request) -> web.Response:
    """Reserve devices for the caller, or by an operator for another user. Answered after the commit."""
    context, caller = context_of(request), caller_of(request)
    wanted, limits, now = await bodies.body(request, _make_body), context.settings.bookings, context.now()
    user = caller.user if wanted.user is msgspec.UNSET else wanted.user
    if user != caller.user and caller.role < Role.OPERATOR:
        raise NotPermitted(
            f"User {caller.user} may not reserve devices for {user}; it takes the role `operator`.",
            fix="Reserve for yourself, or ask an operator: `operators` under [api] names them.",
        )
    # No schema can say this of two fields and the clock.
    if wanted.until_at <= wanted.from_at:
        raise Conflict("The reservation would end before it begins.", fix="Name an end behind its start.")
    if wanted.until_at <= now:
        raise Conflict(f"The reservation would be in the past: it is {rfc3339(now)}.", fix="Name an end ahead of now.")
    is_user = caller.role < Role.OPERATOR
    if is_user and wanted.from_at > now + limits.ahead_days * _DAY_S:
        raise NotPermitted(
            f"Users reserve at most {limits.ahead_days:g} days ahead here.",
            fix="Choose an earlier time, or ask an operator: `ahead_days` under [bookings] is the limit.",
        )
    names = await names_now(context, await context.read(context.devices))
    asked = None if wanted.constraints is msgspec.UNSET else wanted.constraints
    booking = await context.read(
        context.store.add_booking,
        BookingRequest(
            user=user,
            by=caller.user,
            count=wanted.gpus,
            from_at=max(now, wanted.from_at),
            until_at=wanted.until_at,
            constraints=constraints_by_id(asked, names),
            most_device_hours=limits.user_device_hours if is_user else None,
            within_quota=is_user,
        ),
        now,
    )
    context.ringer.ring()
    _, jobs, attempts = await context.read(_read, context.store, now)
    return reply(_view(booking, names, list(_staying(booking, jobs, attempts)), now), 201)


async def cancel(request: web.Request) -> web.Response:
    """End a booking of the caller's, or by an operator any, now."""
    context, caller = context_of(request), caller_of(request)
    number, now = params.booking_id(request.match_info["id"]), context.now()
    found = {booking.id: booking for booking in await context.read(context.store.bookings, since=now)}
    booking = found.get(number)
    if booking is not None and not caller.manages(booking.user):
        raise NotPermitted(f"Reservation {number} belongs to {booking.user}.", fix="Ask its owner, or an operator.")
    await context.read(context.store.cancel_booking, number, caller.user, now)
    context.ringer.ring()
    assert booking is not None, "the record found it"
    names = await names_now(context, await context.read(context.devices))
    return reply(_view(booking, names, [], now))


def _read(store: Store, now: float) -> tuple[list[Booking], dict[JobId, LineRow], list[AttemptRow]]:
    """The bookings, and what runs, with its jobs. Blocks."""
    attempts = store.live_attempts()
    jobs = store.lines(ids=sorted({attempt.job for attempt in attempts})) if attempts else []
    return store.bookings(since=now), {row.id: row for row in jobs}, attempts


def _staying(booking: Booking, jobs: dict[JobId, LineRow], attempts: Iterable[AttemptRow]) -> Iterator[StayingJob]:
    """The jobs of others on its devices that are not known to end before it begins."""
    for attempt in attempts:
        row = jobs.get(attempt.job)
        if row is None or row.record.owner == booking.user or set(attempt.devices).isdisjoint(booking.devices):
            continue
        asked, forecast = row.record.submission, attempt.launch.get("attempt", {}).get("forecast") or {}
        lasts_s = asked.time_limit_s or forecast.get("duration_p90_s")
        began = attempt.launched_at if attempt.started_at is None else attempt.started_at
        ends_at = None if lasts_s is None else began + lasts_s
        if ends_at is None or ends_at > booking.from_at:
            yield StayingJob(
                job=row.id, owner=row.record.owner, ends_by=rfc3339_or_none(ends_at), preemptible=asked.preemptible
            )


def _view(booking: Booking, names: DeviceNames, staying: list[StayingJob], now: float) -> BookingView:
    return BookingView(
        id=booking.id,
        user=booking.user,
        by=booking.by,
        devices=list(booking.devices),
        device_names=[names.of(device) for device in booking.devices],
        from_at=rfc3339(booking.from_at),
        from_at_unix=booking.from_at,
        until_at=rfc3339(booking.until_at),
        until_at_unix=booking.until_at,
        begun=booking.from_at <= now,
        staying=staying,
    )
