"""`GET /api/v1/events`: the journal as server-sent events, resumable.

The id of an event is its number in the journal. `Last-Event-ID` or `?after=` goes on behind one already seen; without
either, the stream begins now. Only entries that name jobs are sent, unless `all=1`. A comment keeps the line open.

Who has seen a number that the record never gave comes from before a backup was put back: they are told so by a first event
`Rewound`, whose id is the newest number there is, and the stream goes on from there.
"""

from __future__ import annotations

import asyncio

import msgspec
from aiohttp import web
from aiohttp_sse import EventSourceResponse

from gpuq.adapters.store.contract import Entry
from gpuq.api import asked
from gpuq.api.context import Context, context_of
from gpuq.api.problem import break_off
from gpuq.api.views import event_view
from gpuq.core.job import JobId
from gpuq.errors import BadInput, GpuqError

_HEARTBEAT_S = 15.0
_LOOK_EVERY_S = 0.4
_AT_ONCE = 500
REWOUND = "Rewound"


async def events(request: web.Request) -> web.StreamResponse:
    """Stream the journal until the caller leaves."""
    context = context_of(request)
    seen = _seen(request)
    last = await _last(context, seen)
    after = last if seen is None else min(seen, last)
    job = asked.whole(request, "job", None, 1, 10**18 - 1)
    answer = EventSourceResponse(ping_interval=_HEARTBEAT_S, sep="\n")
    await answer.prepare(request)
    async with answer:
        try:
            # At once, so that a caller knows where the stream begins and proxies pass the headers on.
            await answer.write(f": after {after}\n\n".encode())
            if seen is not None and seen > last:
                body = {"asked_after": seen, "last": last}
                await _tell(answer, Entry(seq=last, at=context.now(), name=REWOUND, body=body, jobs=()))
            await _send(context, answer, after, only_jobs=not asked.flag(request, "all"), job=job)
        except (ConnectionError, TimeoutError):
            pass
        except Exception:  # noqa: BLE001 - the answer has begun, so no problem document can be sent
            break_off(request)
    return answer


def _seen(request: web.Request) -> int | None:
    """The number of the last event that the caller has seen; None where none is named."""
    text = request.headers.get("Last-Event-ID") or request.query.get("after")
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise BadInput(f"An event's id is a whole number, not {asked.shown(text)}.")
    return int(text)


async def _last(context: Context, seen: int | None) -> int:
    """The newest number; while the record is away, who has seen one is believed and waits."""
    try:
        return await context.read(context.store.last_seq)
    except GpuqError:
        if seen is None:
            raise
        return seen


async def _send(context: Context, answer: EventSourceResponse, after: int, *, only_jobs: bool, job: int | None) -> None:
    while answer.is_connected() and not context.stopping.is_set():
        entries = await _entries(context, after, only_jobs=only_jobs, job=job)
        for entry in entries:
            await _tell(answer, entry)
            after = entry.seq
        if len(entries) < _AT_ONCE:
            await _sleep_unless(context.stopping, _LOOK_EVERY_S)


async def _tell(answer: EventSourceResponse, entry: Entry) -> None:
    body = msgspec.json.encode(event_view(entry)).decode()
    await answer.send(body, id=str(entry.seq), event=entry.name)


async def _entries(context: Context, after: int, *, only_jobs: bool, job: int | None) -> list[Entry]:
    """What came after; nothing while the record is away, it is asked again."""
    wanted = None if job is None else JobId(job)
    try:
        return await context.read(context.store.journal, after=after, limit=_AT_ONCE, job=wanted, only_jobs=only_jobs)
    except GpuqError:
        return []


async def _sleep_unless(stop: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return
