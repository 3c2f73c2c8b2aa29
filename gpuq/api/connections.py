"""How many connections both endpoints have, the API and the listener for other hosts, what is read from one, and for how long.

Whoever reaches the port can connect and send a request, so all that happens before the caller is known is bounded here: TLS
handshakes, too. Nor may one caller have all connections. A body is read as it was sent: a compressed one of two megabytes may
become two gigabytes. What a handler does not read is not read much longer either.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import ssl
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
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
MOST_HANDSHAKES = 500
"""TLS handshakes that are not complete."""
HANDSHAKE_WITHIN_S = 10.0
LOOK_EVERY_S = 0.5
TOKENS_EVERY_S = 5.0


class Known(NamedTuple):
    """The user or host that a connection's last request was of, and the id of the token that said so, if one did."""

    who: str
    token_id: str | None = None


KNOWN: Final = web.AppKey("known", WeakKeyDictionary[asyncio.BaseTransport, Known])
"""The connections with an identified caller."""
_MOST_FILES: Final = 65_536
_ACCEPT_AGAIN_S: Final = 0.5
_log = logging.getLogger(__name__)


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


class TlsSite(web.BaseSite):
    """Serves on a listening socket over TLS.

    asyncio's own server does not say which handshakes are under way, so that one which is never completed would count nowhere.
    Here the oldest beyond MOST_HANDSHAKES are closed.
    """

    def __init__(self, runner: web.AppRunner, listener: socket.socket, tls: ssl.SSLContext) -> None:
        super().__init__(runner)
        self._listener, self._tls = listener, tls
        self._handshakes: dict[asyncio.Task[None], None] = {}
        self._accepting: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """Its address."""
        host, port, *_ = self._listener.getsockname()
        return f"https://{host}:{port}"

    async def start(self) -> None:
        """Begin to accept connections."""
        await super().start()
        self._listener.setblocking(False)
        self._accepting = asyncio.create_task(self._accept())

    async def stop(self) -> None:
        """Accept no more, and end the handshakes that are not complete."""
        tasks = [*self._handshakes, *([] if self._accepting is None else [self._accepting])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listener.close()
        await super().stop()

    async def _accept(self) -> None:
        while True:
            try:
                connection, _ = await asyncio.get_running_loop().sock_accept(self._listener)
            except OSError as error:  # it was reset meanwhile, or this process has no descriptor left
                _log.warning("a connection was not accepted: %s", error, extra={"action": "accept"})
                await asyncio.sleep(_ACCEPT_AGAIN_S)
                continue
            task = asyncio.create_task(self._shake_hands(connection))
            self._handshakes[task] = None
            task.add_done_callback(lambda ended: self._handshakes.pop(ended, None))
            if len(self._handshakes) > MOST_HANDSHAKES:
                oldest = next(iter(self._handshakes))
                del self._handshakes[oldest]
                oldest.cancel()
            await asyncio.sleep(0)  # a connection that waits is accepted without a turn of the loop

    async def _shake_hands(self, connection: socket.socket) -> None:
        assert self._runner.server is not None, "it is set up"
        connection.setblocking(False)
        with suppress(OSError):  # it is no TLS, or not of ours; the transport has closed the connection
            await asyncio.get_running_loop().connect_accepted_socket(
                self._runner.server, connection, ssl=self._tls, ssl_handshake_timeout=HANDSHAKE_WITHIN_S
            )


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
