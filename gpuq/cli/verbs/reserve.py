"""`gpuq reserve`: devices for a user from one moment to another; `gpuq reservations` lists them."""

from __future__ import annotations

import argparse
import time
from typing import Any

from gpuq import format as fmt
from gpuq.cli import console, device_options
from gpuq.cli.arguments import Parser
from gpuq.cli.client import HttpClient, Record
from gpuq.cli.console import Column
from gpuq.cli.quantities import parse_begin, whole
from gpuq.errors import BadInput

_ADDRESS = "/api/v1/bookings"


def run(words: list[str]) -> int:
    """List reservations, make one, or cancel one."""
    parser = Parser(
        "reserve",
        "Reserve devices for yourself from one moment to another: only your jobs start\n"
        "there then, and before that only jobs that end in time. Without options, and as\n"
        "`gpuq reservations`, it lists what is reserved.",
    )
    add = parser.group("the reservation")
    add("--from", dest="begin", metavar="WHEN", help="its start: 14:00, now+2hours, 2026-07-01T08:00. Default: now.")
    end = "its end, in the same forms; now+5hours counts from now, 18:00 is the next behind the start"
    add("--to", dest="end", metavar="WHEN", help=end)
    add("--for", dest="user", metavar="USER", help="operators: for this user")
    add("--list", action="store_true", help="list what is reserved")
    add("--cancel", metavar="ID", help="end this one now")
    add = parser.group("devices")
    add("--gpus", metavar="N", help="devices. Default: 1, or all that --device names.")
    device_options.add_device_options(add)
    options = parser.parse_args(words)
    client = HttpClient.of(options)
    if options.cancel is not None:
        number = whole("--cancel", options.cancel, 1, 2**31 - 1)
        done: Record = client.post(f"{_ADDRESS}/{number}/cancel", {})
        console.show(options, done, lambda booking, *_: [f"Reservation {booking['id']} is over."])
        return 0
    body = _body(options)
    if options.list or body is None:
        if body is not None:
            raise BadInput("--list goes with none of the other options.", fix="Leave it out, or the others.")
        console.show(options, client.get(_ADDRESS), lambda found, width, _: listing(found, width))
        return 0
    made: Record = client.post(_ADDRESS, body)
    console.show(options, made, lambda booking, width, _: confirmation(booking, width))
    return 0


def _body(options: argparse.Namespace) -> dict[str, Any] | None:
    """The request for a reservation; None if no option asks for one. Raises BadInput."""
    asked = device_options.constraints(options)
    given = (options.begin, options.end, options.user, options.gpus, asked)
    if all(value is None for value in given):
        return None
    if options.end is None:
        raise BadInput("a reservation needs an end.", fix="As in `gpuq reserve --gpus 2 --from 14:00 --to 18:00`.")
    if options.user is not None and not options.user.strip():
        raise BadInput("--for names no user.", fix="Write one, or leave it out to reserve for yourself.")
    now = time.time()
    begin = now if options.begin is None else _moment("--from", options.begin, now)
    named = len((asked or {}).get("devices", []))
    body = {
        "from_at": begin,
        # From 22:00 to 6:00 ends on the next day.
        "until_at": _moment("--to", options.end, now, after=begin),
        "gpus": whole("--gpus", options.gpus, 1, 64) or max(1, named),
        "user": options.user,
        "constraints": asked,
    }
    return {name: value for name, value in body.items() if value is not None}


def _moment(option: str, text: str, now: float, after: float | None = None) -> float:
    try:
        return parse_begin(text, now, after)
    except BadInput as error:
        raise BadInput(f"{option}: {error.message}", fix=error.fix) from error


def confirmation(booking: Record, width: int) -> list[str]:
    """What was reserved, and which jobs are not known to end before."""
    devices = ", ".join(map(fmt.clean, booking["device_names"]))
    whose = f" for {fmt.clean(booking['user'])}" if booking["user"] != booking["by"] else ""
    when = f"{fmt.local_time(booking['from_at'])} to {fmt.local_time(booking['until_at'])}"
    text = f"Reservation {booking['id']}{whose}: {devices}, {when}."
    return [line for part in (text, *_staying(booking)) for line in console.wrapped(part, width)]


def listing(bookings: list[Record], width: int) -> list[str]:
    """A table, the first to begin first, and below it the jobs that may stay."""
    if not bookings:
        return ["Nothing is reserved."]
    columns = [Column("ID", right=True), Column("USER"), Column("FROM"), Column("TO"), Column("DEVICES")]
    rows = [
        (
            str(one["id"]),
            fmt.clean(one["user"]),
            "now" if one["begun"] else fmt.local_time(one["from_at"]),
            fmt.local_time(one["until_at"]),
            ", ".join(map(fmt.clean, one["device_names"])),
        )
        for one in bookings
    ]
    stays = [f"Reservation {one['id']}: {text}" for one in bookings for text in _staying(one)]
    return [*console.table(columns, rows, width), *(line for text in stays for line in console.wrapped(text, width))]


def _staying(booking: Record) -> list[str]:
    """A sentence on each job of others that is not known to end before it."""
    return [
        f"job {job['job']} of {fmt.clean(job['owner'])} is there, "
        + (f"until {fmt.local_time(job['ends_by'])} at most" if job["ends_by"] else "for an unknown time")
        + ("; it is stopped when the reservation begins." if job["preemptible"] else "; it runs to its end.")
        for job in booking["staying"]
    ]
