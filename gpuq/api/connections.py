"""What is read from a connection, and for how long, at both endpoints: the API and the listener for other hosts.

Whoever reaches the port can send a request, so all that happens before the caller is known is bounded here. A body is read as it
was sent: a compressed one of two megabytes may become two gigabytes. What a handler does not read is not read much longer either.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final
from weakref import WeakSet

from aiohttp import web

from gpuq.api.contract.problem import BadEncoding, Handler, TooLarge, TooSlow

BODY_BEGINS_WITHIN_S = 10.0
"""How long a body may be waited for, besides the time that it has at LEAST_RATE."""
LEAST_RATE: Final = 16 * 2**10
"""Bytes per second."""
_UNREAD_FOR_S: Final = 1.0
"""How long a client may go on sending a body that no handler reads, so that it gets to read the answer."""
_IDLE_FOR_S: Final = 75
MOST_UNKNOWN = 500
"""Connections without an identified caller. Some thousand of them would take all descriptors of the process."""
LOOK_EVERY_S = 0.5
KNOWN: Final = web.AppKey("known", WeakSet[asyncio.BaseTransport])
"""Connections with an identified caller."""


def make_runner(app: web.Application, **options: Any) -> web.AppRunner:
    """What serves an application on its sockets."""
    return web.AppRunner(
        app,
        access_log=None,
        keepalive_timeout=_IDLE_FOR_S,
        auto_decompress=False,
        lingering_time=_UNREAD_FOR_S,
        **options,
    )


def note_known(request: web.Request) -> None:
    """Note that the caller of this connection is identified."""
    if request.transport is not None:
        request.app[KNOWN].add(request.transport)


async def limit_unknown(runner: web.AppRunner) -> None:
    """Close the oldest connections without an identified caller beyond MOST_UNKNOWN, until cancelled."""
    assert runner.server is not None, "it is set up"
    known = runner.app[KNOWN]
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        # They are in the order in which they were accepted.
        unknown = [one for one in runner.server.connections if one.transport is not None and one.transport not in known]
        for one in unknown[: max(0, len(unknown) - MOST_UNKNOWN)]:
            one.force_close()


@web.middleware
async def refuse_encoded(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse a compressed body before anything of it is read."""
    if any(given.strip().lower() != "identity" for given in request.headers.getall("Content-Encoding", [])):
        raise BadEncoding("A body with a Content-Encoding is not taken here.")
    return await handler(request)


async def pieces(request: web.Request) -> AsyncIterator[bytes]:
    """The body, piece by piece. Raises TooSlow for one that is waited for longer than its size explains."""
    now, waited_s, received = asyncio.get_running_loop().time, 0.0, 0
    while True:
        began = now()
        try:
            async with asyncio.timeout(BODY_BEGINS_WITHIN_S + received / LEAST_RATE - waited_s):
                piece = await request.content.readany()
        except TimeoutError:
            raise TooSlow(f"The body comes too slowly: {received} bytes in {waited_s + now() - began:.0f} s.") from None
        waited_s += now() - began
        if not piece:
            return
        received += len(piece)
        yield piece


async def whole(request: web.Request, most: int, count: Callable[[int], None] = lambda _: None) -> bytes:
    """The body. `count` is called with the bytes of each piece. Raises TooLarge for more than `most` bytes, TooSlow as `pieces`
    does, and what `count` raises."""
    body, announced = bytearray(), request.content_length or 0
    if announced <= most:
        async for piece in pieces(request):
            body += piece
            count(len(piece))
            if len(body) > most:
                break
    if max(len(body), announced) > most:
        limit = f"{most // 2**20} MiB" if most >= 2**20 else f"{most} bytes"
        raise TooLarge(f"The body is larger than {limit}, which is the limit at this address.")
    return bytes(body)
