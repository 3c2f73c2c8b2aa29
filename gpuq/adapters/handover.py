"""Hand a connection to another process of this home, through a Unix socket that exists for this purpose alone.

The endpoint waits in `run/` for the connection to a job that it has asked the job's host for. The worker service of this host, or
the listener for other hosts, gives it. From then on the endpoint talks to the job itself, so a restart of the one that gave the
connection does not end it. `run/` is closed to other users, and the name is random.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import types
from contextlib import suppress
from pathlib import Path

from gpuq.errors import Unreachable

_LONGEST_HOST = 256
_TAKEN_WITHIN_S = 2.0


class Handover:
    """`with Handover(run, host) as handover:` waits for one connection from `host`, under the random name `id`."""

    def __init__(self, run: Path, host: str) -> None:
        self.id = secrets.token_hex(16)
        self._run, self._host = run, host
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)

    def __enter__(self) -> Handover:
        with _Folder(self._run) as folder:
            self._listener.bind(f"{folder}/{_name(self.id)}")
        self._listener.listen(8)
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        (self._run / _name(self.id)).unlink(missing_ok=True)

    async def take(self, within_s: float) -> socket.socket | None:
        """The connection, not blocking; None if the host has none to give. Raises TimeoutError."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(within_s):
            while True:
                giver, _ = await loop.sock_accept(self._listener)
                with giver:
                    await _readable(giver)
                    host, files, *_ = socket.recv_fds(giver, _LONGEST_HOST, 1)
                connections = [socket.socket(fileno=file) for file in files]
                if host.decode(errors="replace") == self._host:
                    for connection in connections:
                        connection.setblocking(False)
                        return connection
                    return None
                for connection in connections:
                    connection.close()


def give(run: Path, id_: str, host: str, connection: socket.socket | None) -> None:
    """Give the connection, or None if there is none to give. Raises Unreachable if no endpoint of this home waits for it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as giver:
        giver.settimeout(_TAKEN_WITHIN_S)
        try:
            with _Folder(run) as folder:
                giver.connect(f"{folder}/{_name(id_)}")
            socket.send_fds(giver, [host.encode()], [] if connection is None else [connection.fileno()])
        except OSError as error:
            raise Unreachable("Nothing waits for this connection any more.") from error


async def _readable(connection: socket.socket) -> None:
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(connection, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(connection)


def _name(id_: str) -> str:
    return f"channel-{id_}"


class _Folder:
    """A short name for a folder while the block lasts: a socket's address holds 107 bytes."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> str:
        self._descriptor = os.open(self._path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        return f"/proc/self/fd/{self._descriptor}"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        with suppress(OSError):
            os.close(self._descriptor)
