"""The job's pseudo-terminal, and the clients that are attached to it.

The shim holds the master side, so the terminal lives as long as the job, whatever else of gpuq ends. Clients connect to the
Unix socket `terminal` in the attempt's folder. Each is sent the output from the offset that it names; one that is too slow
misses what is older than the log's tail, so none of them makes the job wait, and no more is kept for one than one frame.

A frame is a letter, the length of what follows (two bytes, big-endian), and that:

| from | letter | what |
|---|---|---|
| client | A | attach, first of all: offset of the output (-1: the recent part), rows, columns |
| client | D | bytes typed |
| client | R | rows, columns |
| client | S | in place of A: a public key; the rest of the connection is an SSH server's (`shim.ssh`) |
| shim | O | the offset of what follows, and up to which offset it was output before the client attached |
| shim | D | bytes of output |
| shim | K | the SSH server begins |
| shim | E | a sentence why not; the connection ends |

`gpuq.cli.terminal` has the client's side. Standard library only, as all of the shim.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import struct
import termios
import time
from contextlib import suppress
from typing import Any

from gpuq_workers.shim import ssh
from gpuq_workers.shim.log import BoundedLog

SOCKET = "terminal"
_HEADER, _ATTACH, _SIZE, _OFFSETS = (
    struct.Struct(">cH"),
    struct.Struct(">qHH"),
    struct.Struct(">HH"),
    struct.Struct(">QQ"),
)
_PIECE = 32_768
_MOST_CLIENTS = 8
# What a client has sent and the job has not read yet; it is read no further then.
_MOST_TYPED = 65_536
_LAST_OUTPUT_WITHIN_S = 1.0


class Terminal:
    """Clients of one job. `master` is the descriptor of its pseudo-terminal, None for an interactive job without one.

    Descriptors are registered with the shim's `poller`, and the shim calls `serve` for those that are ready.
    """

    def __init__(
        self, folder: str, order: dict[str, Any], log: BoundedLog, poller: select.poll, master: int | None
    ) -> None:
        self._folder, self._order, self._log, self._poller = folder, order, log, poller
        # A descriptor of its own, because the shim stops polling the other one when the job closes the terminal.
        self._input = None if master is None else os.dup(master)
        self._clients: dict[int, _Client] = {}
        self._typed = bytearray()
        self._listener = _listen(folder)
        poller.register(self._listener, select.POLLIN)

    def serve(self, descriptor: int, events: int) -> None:
        """Do what can be done without waiting on this descriptor, of which `poll` reported these events."""
        if descriptor == self._listener.fileno():
            self._accept()
        elif descriptor == self._input:
            self._type()
        elif descriptor in self._clients:
            client = self._clients[descriptor]
            client.hung_up = client.hung_up or bool(events & (select.POLLHUP | select.POLLERR))
            try:
                self._receive(client)
                if descriptor in self._clients:
                    self._send(client)
            except OSError:
                self._drop(client)

    def show(self) -> None:
        """Send output that is new to the clients."""
        for client in list(self._clients.values()):
            try:
                self._send(client)
            except OSError:
                self._drop(client)

    def close(self) -> None:
        """Send the last output, for a second at most, and end the connections."""
        with suppress(OSError):
            os.unlink(f"{self._folder}/{SOCKET}")  # noqa: PTH108 - pathlib costs the shim start time and memory
        self._listener.close()
        until = time.monotonic() + _LAST_OUTPUT_WITHIN_S
        for client in list(self._clients.values()):
            with suppress(OSError):
                while self._send(client) and (left := until - time.monotonic()) > 0:
                    select.select([], [client.connection], [], left)
            self._drop(client)

    # --- clients ---

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        connection.setblocking(False)
        client = _Client(connection)
        if len(self._clients) >= 2 * _MOST_CLIENTS:
            connection.close()
            return
        self._clients[connection.fileno()] = client
        self._poller.register(connection, select.POLLIN)

    def _receive(self, client: _Client) -> None:
        if len(self._typed) >= _MOST_TYPED:
            return
        try:
            data = client.connection.recv(_PIECE)
        except BlockingIOError:
            return
        if not data:
            raise ConnectionResetError
        client.received += data
        while client.connection.fileno() >= 0 and (frame := client.frame()) is not None:
            self._follow(client, *frame)
        self._type()

    def _follow(self, client: _Client, letter: bytes, body: bytes) -> None:
        """Do what one frame asks for. A frame that is none ends the connection."""
        if letter == b"S" and client.offset is None:
            self._serve_ssh(client, body)
        elif self._input is None:
            self._refuse(client, "it has no terminal.")
        elif sum(one.offset is not None for one in self._clients.values()) >= _MOST_CLIENTS and letter == b"A":
            self._refuse(client, f"{_MOST_CLIENTS} clients are attached to it already.")
        elif letter == b"A" and len(body) == _ATTACH.size:
            offset, rows, columns = _ATTACH.unpack(body)
            client.attach(offset, self._log)
            self._resize(rows, columns)
            # So that a program which fills the screen draws it again, also where the size is the same.
            with suppress(OSError):
                os.killpg(os.tcgetpgrp(self._input), signal.SIGWINCH)
        elif letter == b"D" and client.offset is not None:
            self._typed += body
        elif letter == b"R" and len(body) == _SIZE.size and client.offset is not None:
            self._resize(*_SIZE.unpack(body))
        else:
            raise ConnectionAbortedError

    def _resize(self, rows: int, columns: int) -> None:
        assert self._input is not None
        if rows and columns:
            with suppress(OSError):
                fcntl.ioctl(self._input, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))

    def _type(self) -> None:
        """Give the job what was typed, as far as it takes it."""
        if self._input is None:
            return
        if self._typed:
            try:
                del self._typed[: os.write(self._input, self._typed)]
            except BlockingIOError:
                pass
            except OSError:  # no process has the terminal open any more
                self._typed.clear()
        with suppress(KeyError):
            self._poller.unregister(self._input)
        if self._typed:
            self._poller.register(self._input, select.POLLOUT)
        for client in self._clients.values():
            self._watch(client)

    def _send(self, client: _Client) -> bool:
        """Send what the client's socket takes of the output; whether something is left."""
        while not client.hung_up and (client.unsent or client.next_frame(self._log)):
            try:
                del client.unsent[: client.connection.send(client.unsent)]
            except BlockingIOError:
                break
        self._watch(client)
        return bool(client.unsent)

    def _watch(self, client: _Client) -> None:
        reads = select.POLLIN if len(self._typed) < _MOST_TYPED else 0
        if client.hung_up and not reads:
            # What it sent is read when there is room. Until then, `poll` would report it without end: POLLHUP cannot be left out.
            with suppress(KeyError):
                self._poller.unregister(client.connection)
            return
        self._poller.register(client.connection, reads | (select.POLLOUT if client.unsent else 0))

    def _refuse(self, client: _Client, why: str) -> None:
        with suppress(OSError):
            client.connection.send(framed(b"E", why.encode()))
        self._drop(client)

    def _drop(self, client: _Client) -> None:
        if self._clients.pop(client.connection.fileno(), None) is not None:
            with suppress(KeyError):
                self._poller.unregister(client.connection)
            client.connection.close()

    def _serve_ssh(self, client: _Client, key: bytes) -> None:
        """Hand the connection to an SSH server, a process of this job."""
        why_not = ssh.why_not(key)
        if why_not is not None:
            self._refuse(client, why_not)
            return
        client.connection.setblocking(True)
        client.connection.send(framed(b"K", b""))
        try:
            ssh.start(self._folder, self._order, key, client.connection.fileno())
        finally:
            self._drop(client)


class _Client:
    """One connection: what came of its next frame, where it is in the output (None: not attached), and what is to be sent."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.received, self.unsent = bytearray(), bytearray()
        self.offset: int | None = None
        self.before = 0
        self.hung_up = False

    def frame(self) -> tuple[bytes, bytes] | None:
        """The next frame that has come in whole."""
        if len(self.received) < _HEADER.size:
            return None
        letter, length = _HEADER.unpack_from(self.received)
        end = _HEADER.size + length
        if len(self.received) < end:
            return None
        body = bytes(self.received[_HEADER.size : end])
        del self.received[:end]
        return letter, body

    def attach(self, offset: int, log: BoundedLog) -> None:
        """Begin at this offset of the output, -1 for the oldest that the log has in memory."""
        self.before = log.end
        self.offset = min(offset, log.end) if offset >= 0 else log.since(0)[0]
        self.unsent += framed(b"O", _OFFSETS.pack(self.offset, self.before))

    def next_frame(self, log: BoundedLog) -> bool:
        """Make what is to be sent next; whether there is something."""
        if self.offset is None or self.offset >= log.end:
            return False
        start, data = log.since(self.offset)
        if start != self.offset:
            self.unsent += framed(b"O", _OFFSETS.pack(start, self.before))
        self.unsent += framed(b"D", data[:_PIECE])
        self.offset = start + min(len(data), _PIECE)
        return True


def framed(letter: bytes, body: bytes) -> bytes:
    """One frame."""
    return _HEADER.pack(letter, len(body)) + body


def _listen(folder: str) -> socket.socket:
    """The listening socket in the attempt's folder, which no other user but the services can enter. Raises OSError."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    # A socket's address holds 107 bytes, and the folder's path may be longer.
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    before = os.umask(0)
    try:
        listener.bind(f"/proc/self/fd/{descriptor}/{SOCKET}")
    finally:
        os.umask(before)
        os.close(descriptor)
    listener.listen(_MOST_CLIENTS)
    return listener
