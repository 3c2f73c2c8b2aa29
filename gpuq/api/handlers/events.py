"""`GET /api/v1/events`: the journal as resumable server-sent events.

The id of an event is its number in the journal and the microsecond in which it was written: "1500-1764000000123456".
`Last-Event-ID` or `?after=` continues after an event; without either, the stream begins now, and an id
without an event says where. Only entries that name jobs are sent, unless `all=1`. A comment every 15 s keeps the connection open.

After a backup was restored, numbers are used a second time, at other moments. So a client whose last id is not in the journal, or
no longer, first gets an event `Rewound` with the newest id, and the stream continues from there. A bare number is accepted as an
id too; then only numbers beyond the newest are known to predate the restore.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec
from aiohttp import web
from aiohttp_sse import EventSourceResponse

from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.row_types import Entry
from gpuq.adapters.tasks import wait_for_event
from gpuq.api import visibility
from gpuq.api.context import JOURNAL_AT_ONCE, ApiContext, context_of
from gpuq.api.contract import limits, params
from gpuq.api.contract.problem import break_off
from gpuq.api.handlers.jobs import find
from gpuq.api.views import event_view
from gpuq.core.state.job import JobId
from gpuq.errors import BadInput, GpuqError, NotPermitted

_HEARTBEAT_S = 15.0
_LOOK_EVERY_S = 0.4
MOST_STREAMS = 100
"""Of one user at the same time; each open page has one."""
_ID = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
REWOUND = "Rewound"


@dataclass(frozen=True, slots=True)
class EventCursor:
    """The last entry that a client has received. `moment` in microseconds, None if the client gave only the number."""

    seq: int
    moment: int | None = None

    @classmethod
    def of(cls, entry: Entry) -> EventCursor:
        """The cursor of an entry of the journal."""
        return cls(entry.seq, round(entry.at * 1e6))

    @property
    def id(self) -> str:
        """The event id in the stream."""
        return f"{self.seq}" if self.moment is None else f"{self.seq}-{self.moment}"


async def events(request: web.Request) -> web.StreamResponse:
    """Stream the journal until the client disconnects."""
    context = context_of(request)
    query = params.query(request, params.EventsQuery)
    seen = _seen(request, query)
    begins = await context.read(_newest, context.store) if seen is None else seen
    job = params.given(query.job)
    kind = await _kind_of(request, job)
    with limits.one_of(request, "streams of events", MOST_STREAMS):
        return await _stream(request, seen, begins, kind, only_jobs=not query.all, job=job)


async def _stream(
    request: web.Request,
    seen: EventCursor | None,
    begins: EventCursor,
    kind: str | None,
    *,
    only_jobs: bool,
    job: int | None,
) -> web.StreamResponse:
    context, after = context_of(request), begins.seq
    answer = EventSourceResponse(ping_interval=_HEARTBEAT_S, sep="\n")
    await answer.prepare(request)
    async with answer:
        try:
            # Sent at once, so that proxies forward the headers, and a client without an id yet can go on from here.
            first_id = f"id: {begins.id}\n" if seen is None else ""
            await answer.write(f": after {begins.id}\n{first_id}\n".encode())
            if seen is not None:
                after = await _resume_after(context, answer, seen)
            await _send(request, answer, after, kind, only_jobs=only_jobs, job=job)
        except (ConnectionError, TimeoutError):
            pass
        except Exception:  # noqa: BLE001 - the answer has begun, so no problem document can be sent
            break_off(request)
    return answer


async def _kind_of(request: web.Request, job: int | None) -> str | None:
    """The kind of the job, None without one. Raises NotFound for a job that does not exist, and NotPermitted unless the caller is
    shown all that the stream will say: the journal has the kinds of jobs."""
    if job is None:
        if not visibility.sees_all(request):
            fix = "Add `job=ID` for those of a job of yours."
            raise NotPermitted("Operators may see the events of all jobs.", fix=fix)
        return None
    row, _ = await find(context_of(request), str(job))
    visibility.check_sees(request, row.id, row.record.owner)
    return row.record.kind


def _seen(request: web.Request, query: params.EventsQuery) -> EventCursor | None:
    """The last event that the client has received; None if it names none. Raises BadInput."""
    text = params.given(params.headers(request, params.EventsHeaders).last_event_id) or params.given(query.after)
    if text is None:
        return None
    found = _ID.fullmatch(text)
    if not found:
        raise BadInput(
            f"{params.shown(text)} is not the id of an event.",
            fix="Give the `id` of the last one that came, or its number; 0 is the beginning.",
        )
    return EventCursor(int(found[1]), None if found[2] is None else int(found[2]))


async def _resume_after(context: ApiContext, answer: EventSourceResponse, seen: EventCursor) -> int:
    """The number after which to continue. Clients whose last id predates a restore get a `Rewound` event."""
    while answer.is_connected() and not context.stopping.is_set():
        try:
            newest = await context.read(_newest_if_rewound, context.store, seen)
        except GpuqError:
            await wait_for_event(context.stopping, _LOOK_EVERY_S)
            continue
        if newest is None:
            break
        body = {"asked_after": seen.seq, "last": newest.seq}
        entry = Entry(seq=newest.seq, at=context.now(), name=REWOUND, body=body, jobs=())
        await _send_entry(answer, entry, newest)
        return newest.seq
    return seen.seq


def _newest_if_rewound(store: Store, seen: EventCursor) -> EventCursor | None:
    """The newest entry, if the journal does not have `seen`; None if it does. Blocks."""
    if seen.seq <= store.last_seq() and (seen.moment is None or _found(store, seen.seq) == seen):
        return None
    return _newest(store)


def _newest(store: Store) -> EventCursor:
    last = store.last_seq()
    return _found(store, last) or EventCursor(last)


def _found(store: Store, seq: int) -> EventCursor | None:
    entries = store.journal(after=seq - 1, limit=1)
    return EventCursor.of(entries[0]) if entries and entries[0].seq == seq else None


async def _send(
    request: web.Request, answer: EventSourceResponse, after: int, kind: str | None, *, only_jobs: bool, job: int | None
) -> None:
    context = context_of(request)
    wanted = None if job is None else JobId(job)
    while answer.is_connected() and not context.stopping.is_set():
        try:
            entries = await context.journal.entries((after, wanted, only_jobs))
        except GpuqError:
            entries = []  # the database is unreachable; it is tried again
        for entry in entries:
            shown = msgspec.structs.replace(entry, body=visibility.journal_body(request, entry.body, kind))
            await _send_entry(answer, shown, EventCursor.of(entry))
            after = entry.seq
        if len(entries) < JOURNAL_AT_ONCE:
            await wait_for_event(context.stopping, _LOOK_EVERY_S)


async def _send_entry(answer: EventSourceResponse, entry: Entry, cursor: EventCursor) -> None:
    body = msgspec.json.encode(event_view(entry)).decode()
    await answer.send(body, id=cursor.id, event=entry.name)
