"""Listen on the home's Unix socket and a TCP port, and write down where.

Several API processes may run for one home. One of them holds a lock and owns the Unix socket and the note `run/http.json`; when
it ends, the next takes over. All of them serve TCP.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from aiohttp import web
from systemd_watchdog import WatchDog

from gpuq.adapters.lock import take_lock
from gpuq.adapters.tasks import wait_for_event
from gpuq.api.connections import limit_connections, make_runner
from gpuq.api.sockets import BACKLOG, open_shared, open_tcp, open_unix
from gpuq.home import Home, write_private
from gpuq.settings import Api

_log = logging.getLogger("gpuq.api")

_TAKE_OVER_EVERY_S = 0.5
_WRITE_AGAIN_EVERY_S = 1.0
# A list of 1000 ids with 18 digits each, and the other parameters.
_MAX_ADDRESS = 2**15
_STREAMS_END_WITHIN_S = 3.0


@dataclass
class SocketOwner:
    """The holder of the lock, which owns the Unix socket and `http.json`."""

    home: Home
    runner: web.AppRunner
    settings: Api
    port: int
    _lock: int | None = field(default=None, init=False)
    _noting: asyncio.Task[None] | None = field(default=None, init=False)

    async def take(self) -> bool:
        """Take the lock and open the socket; False if another process holds the lock. Raises Failure."""
        lock = take_lock(self.home.run / "api.lock")
        if lock is None:
            return False
        self._lock = lock
        await web.SockSite(self.runner, open_unix(self.home.api_socket), backlog=BACKLOG).start()
        if self.settings.shared_socket:
            # Anyone may connect; `identity` decides by the user that the kernel names.
            shared = open_shared(Path(self.settings.shared_socket))
            await web.SockSite(self.runner, shared, backlog=BACKLOG).start()
        if not self._write_note():
            self._noting = asyncio.create_task(self._write_note_later())
        return True

    def _write_note(self) -> bool:
        """Write `http.json`, without which the endpoint works all the same; False if that failed."""
        where = {"url": address(self.settings.host, self.port), "port": self.port, "pid": os.getpid()}
        try:
            write_private(note(self.home), msgspec.json.encode(where), durable=False)
        except OSError as error:
            _log.warning("%s cannot be written, trying again: %s", note(self.home), error.strerror)
            return False
        return True

    async def _write_note_later(self) -> None:
        while not self._write_note():
            await asyncio.sleep(_WRITE_AGAIN_EVERY_S)

    async def take_later(self) -> None:
        """Retry `take` until the holder has ended."""
        while not await self.take():
            await asyncio.sleep(_TAKE_OVER_EVERY_S)

    def leave(self) -> None:
        """Remove the socket and the note, and release the lock."""
        if self._lock is None:
            return
        if self._noting is not None:
            self._noting.cancel()
        shared = [Path(self.settings.shared_socket)] if self.settings.shared_socket else []
        for path in (self.home.api_socket, note(self.home), *shared):
            path.unlink(missing_ok=True)
        os.close(self._lock)
        self._lock = None


def note(home: Home) -> Path:
    """The file with the page's address, the TCP port and the owner's pid."""
    return home.run / "http.json"


def address(host: str, port: int) -> str:
    """The page's address on this machine, as in `http://127.0.0.1:8780/`."""
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  only compared
    return f"http://[{reachable}]:{port}/" if ":" in reachable else f"http://{reachable}:{port}/"


async def serve(
    app: web.Application,
    home: Home,
    settings: Api,
    stop: asyncio.Event,
    log: Callable[[str], None],
    tcp: socket.socket | None = None,
) -> None:
    """Serve until `stop` is set, on `tcp` or the address of the settings. `log` gets a sentence on where.

    Raises Failure, BadSettings if it cannot listen, and what a background task of the application raised.
    """
    tcp = tcp or open_tcp(settings)
    port = tcp.getsockname()[1]
    runner = make_runner(app, shutdown_timeout=_STREAMS_END_WITHIN_S, max_line_size=_MAX_ADDRESS)
    await runner.setup()
    front = SocketOwner(home, runner, settings, port)
    waiting, limiting = None, asyncio.create_task(limit_connections(runner))
    try:
        # Each process serves TCP at once; the Unix socket has one owner, because its path can only be bound once.
        if not await front.take():
            log("Another API process holds the Unix socket; this one serves TCP and takes over when that one ends.")
            waiting = asyncio.create_task(front.take_later())
        await web.SockSite(runner, tcp, backlog=BACKLOG).start()
        log(f"Listening on http://{settings.host}:{port} and {home.api_socket}")
        await _run_until(stop)
    finally:
        limiting.cancel()
        if waiting is not None:
            waiting.cancel()
        try:
            await runner.cleanup()
        finally:
            front.leave()


async def _run_until(stop: asyncio.Event) -> None:
    """Wait for `stop`. Notify systemd that the service is ready, and feed its watchdog if one is set."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        watchdog = WatchDog(line)
        every = watchdog.timeout / 1_000_000 / 3 if watchdog.is_enabled else None
        # A service manager that does not answer is no reason to stop serving.
        with contextlib.suppress(OSError):
            watchdog.ready()
        while not stop.is_set():
            with contextlib.suppress(OSError):
                watchdog.notify()
            await wait_for_event(stop, every)
