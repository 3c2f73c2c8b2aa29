"""How many connections both endpoints have, the API and the listener for other hosts, what is read from one, and for how long.

Whoever reaches the port can connect and send a request, so all that happens before the caller is known is bounded here, TLS
handshakes in `hosts/tls_site.py`. Nor may one caller have all connections. A body is read as it was sent: a compressed one of two
megabytes may become two gigabytes. What a handler does not read is not read much longer either.
"""

from __future__ import annotations

import asyncio
import resource
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from gpuq.api.contract.problem import BadEncoding, Handler, TooLarge, TooSlow
from gpuq.errors import GpuqError

BODY_BEGINS_WITHIN_S = 10.0
"""How long a body may be waited for, besides the time that it has at LEAST_RATE."""
LEAST_RATE: Final = 16 * 2**10
"""Bytes per second."""
_UNREAD_FOR_S: Final = 1.0
"""How long a client may go on sending a body that no handler reads, so that it gets to read the answer."""
_IDLE_FOR_S: Final = 75
MOST_UNKNOWN = 500
"""Connections without an identified caller. Some thousand of them would take all descriptors of the process."""
MOST_OF_CALLER = 1000
"""Connections of one user or host; fewer where they would take more than a quarter of the descriptors of the process."""
LOOK_EVERY_S = 0.5
TOKENS_EVERY_S = 5.0


class Known(NamedTuple):
    """The user or host that a connection's last request was of, and the id of the token that said so, if one did."""

    who: str
    token_id: str | None = None


KNOWN: Final = web.AppKey("known", WeakKeyDictionary[asyncio.BaseTransport, Known])
"""The connections with an identified caller."""
_MOST_FILES: Final = 65_536


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


def allow_descriptors() -> None:
    """Let this process have as many descriptors as it may: a shell usually leaves 1,024, and a connection takes one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY:
        wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


def note_known(request: web.Request, known: Known) -> None:
    """Note that the caller of this connection is identified."""
    if request.transport is not None:
        request.app[KNOWN][request.transport] = known


async def end_with_tokens(app: web.Application, valid: Callable[[str], Awaitable[bool]]) -> None:
    """Close the connections of tokens that are not valid any more, until cancelled: a stream of events or a terminal that was
    begun with one would go on. `valid` may raise GpuqError, and is asked again then."""
    while True:
        await asyncio.sleep(TOKENS_EVERY_S)
        connections = [(one, known.token_id) for one, known in app[KNOWN].items() if known.token_id is not None]
        for token_id in {token_id for _, token_id in connections}:
            try:
                is_valid = await valid(token_id)
            except GpuqError:
                continue
            for one, of_token in connections:
                if of_token == token_id and not is_valid and isinstance(one, asyncio.WriteTransport):
                    one.abort()


async def limit_connections(runner: web.AppRunner) -> None:
    """Close the oldest connections beyond MOST_UNKNOWN without an identified caller, and beyond MOST_OF_CALLER of each caller,
    until cancelled."""
    assert runner.server is not None, "it is set up"
    known, most_of_caller = runner.app[KNOWN], min(MOST_OF_CALLER, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4)
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        connections_of: defaultdict[str | None, list[RequestHandler]] = defaultdict(list)
        # They are in the order in which they were accepted.
        for one in runner.server.connections:
            if one.transport is not None:
                of = known.get(one.transport)
                connections_of[None if of is None else of.who].append(one)
        for who, theirs in connections_of.items():
            most = MOST_UNKNOWN if who is None else most_of_caller
            for one in theirs[: max(0, len(theirs) - most)]:
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
