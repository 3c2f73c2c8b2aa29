"""A listening socket whose connections are over TLS."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from contextlib import suppress
from typing import Final

from aiohttp import web

MOST_HANDSHAKES = 500
"""TLS handshakes that are not complete."""
HANDSHAKE_WITHIN_S = 10.0
_ACCEPT_AGAIN_S: Final = 0.5
_log = logging.getLogger(__name__)


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
