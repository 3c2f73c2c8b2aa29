"""A connection to an interactive job: binary messages of a WebSocket (RFC 6455) over the endpoint's socket or address.

`gpuq-client` has no dependency that speaks it, and only this little of it is needed: one extension-free stream of bytes.
"""

from __future__ import annotations

import os
import select
import socket
import struct
from collections.abc import Callable
from contextlib import suppress

from gpuq.cli.client import HttpClient, Lost
from gpuq.errors import Failure

_HEADERS = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
}
_BINARY, _CLOSE, _PING, _PONG = 2, 8, 9, 10
_PIECE = 65_536
_LARGEST_FRAME = 2**20
_GOING_AWAY = struct.pack(">H", 1001)


class Channel:
    """A connection to the `name` of a job. It can be polled: `fileno` is readable when `receive` has something.

    `receive` and `send` raise Lost if the connection breaks or the endpoint is stopped.
    """

    def __init__(self, client: HttpClient, job: int, name: str) -> None:
        """Raises the error that the endpoint answers with: NotPermitted, Conflict, NotFound, Unreachable."""
        from base64 import b64encode

        key = b64encode(os.urandom(16)).decode()
        self._client = client
        path = f"/api/v1/jobs/{job}/channels/{name}"
        self._socket: socket.socket = client.upgrade(path, {**_HEADERS, "Sec-WebSocket-Key": key})
        self._received = bytearray()
        self._ended: bytes | None = None

    def fileno(self) -> int:
        """The descriptor to poll."""
        return self._socket.fileno()

    def has_more(self) -> bool:
        """Whether `receive` has something that polling does not show."""
        pending: Callable[[], int] = getattr(self._socket, "pending", int)  # of TLS
        return self._ended is not None or pending() > 0

    def receive(self) -> bytes | None:
        """What has come, perhaps nothing yet; None when the job has ended the connection."""
        if self._ended is None:
            found = self._read()
            if found or self._ended is None:
                return found
        if self._ended == _GOING_AWAY:
            raise Lost("The endpoint is stopped.")
        return None

    def send(self, data: bytes) -> None:
        """Send all of this; waits while the job does not read."""
        for start in range(0, len(data), _PIECE):
            self._send(_BINARY, data[start : start + _PIECE])

    def close(self) -> None:
        """End the connection."""
        self._client.close()

    def _read(self) -> bytes:
        try:
            data = self._socket.recv(_PIECE)
        except OSError as error:
            raise Lost("The connection to the job broke off.") from error
        if not data:
            raise Lost("The connection to the job broke off.")
        self._received += data
        found = bytearray()
        while self._ended is None and (frame := self._frame()) is not None:
            kind, body = frame
            if kind == _CLOSE:
                self._ended = body[:2]
                with suppress(Lost):
                    self._send(_CLOSE, body[:2])  # the endpoint waits for it
            elif kind == _PING:
                self._send(_PONG, body)
            elif kind != _PONG:
                found += body
        return bytes(found)

    def _frame(self) -> tuple[int, bytes] | None:
        """(kind, body) of the next frame that has come in whole. A message may have several; they are one stream here."""
        if len(self._received) < 2:
            return None
        length, begin = self._received[1] & 0x7F, 2
        if length >= 126:
            form = ">H" if length == 126 else ">Q"
            begin += struct.calcsize(form)
            if len(self._received) < begin:
                return None
            length = struct.unpack_from(form, self._received, 2)[0]
        if length > _LARGEST_FRAME:
            raise Failure("The endpoint sends what is no WebSocket.", fix="Check --host.")
        if len(self._received) < begin + length:
            return None
        kind, body = self._received[0] & 0x0F, bytes(self._received[begin : begin + length])
        del self._received[: begin + length]
        return kind, body

    def _send(self, kind: int, body: bytes) -> None:
        length = len(body)
        size = struct.pack(">B", 0x80 | length) if length < 126 else struct.pack(">BH", 0x80 | 126, length)
        if length > 0xFFFF:
            size = struct.pack(">BQ", 0x80 | 127, length)
        # Clients mask what they send, so that no proxy takes it for HTTP.
        mask = os.urandom(4)
        pattern = int.from_bytes((mask * (length // 4 + 1))[:length], "big")
        masked = (int.from_bytes(body, "big") ^ pattern).to_bytes(length, "big")
        try:
            self._socket.sendall(bytes([0x80 | kind]) + size + mask + masked)
        except OSError as error:
            raise Lost("The connection to the job broke off.") from error


def copy(channel: Channel, read_from: int, write_to: int) -> None:
    """Copy between a channel and two descriptors, of which a socket may be both, until the job ends the connection.

    The end of what is read here ends it too. Raises Lost.
    """
    poller = select.poll()
    poller.register(channel, select.POLLIN)
    poller.register(read_from, select.POLLIN)
    while True:
        ready = {channel.fileno()} if channel.has_more() else {descriptor for descriptor, _ in poller.poll()}
        if channel.fileno() in ready:
            data = channel.receive()
            if data is None:
                return
            write_all(write_to, data)
        if read_from in ready:
            typed = os.read(read_from, _PIECE)
            if not typed:
                return
            channel.send(typed)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it."""
    while data:
        data = data[os.write(descriptor, data) :]
