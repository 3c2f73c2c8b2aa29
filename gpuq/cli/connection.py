"""Connections to the endpoint: over a Unix socket, and how long one is good."""

from __future__ import annotations

import http.client
import os
import select
import socket
from pathlib import Path

# Linux keeps 108 bytes for a socket's path, the closing zero included.
_SOCKET_PATH_BYTES = 107


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self) -> None:
        """Connect. A path that is too long for a socket address is reached through a descriptor of its folder."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        if len(os.fsencode(self.path)) <= _SOCKET_PATH_BYTES:
            self.sock.connect(str(self.path))
            return
        folder = os.open(self.path.parent, os.O_PATH | os.O_DIRECTORY)
        try:
            self.sock.connect(f"/proc/self/fd/{folder}/{self.path.name}")
        finally:
            os.close(folder)


def is_over(idle: socket.socket) -> bool:
    """Whether the other side has closed a connection on which nothing was awaited: its end is all that can be read there."""
    poller = select.poll()
    poller.register(idle, select.POLLIN)
    return bool(poller.poll(0))


def wait_while_connected(connection: socket.socket) -> None:
    """Set no timeout. A network that went away without a word, as while a laptop slept, ends the connection within a minute."""
    connection.settimeout(None)
    if connection.family != socket.AF_UNIX:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        options = {socket.TCP_NODELAY: 1, socket.TCP_KEEPIDLE: 30, socket.TCP_KEEPINTVL: 10}
        for option, value in {**options, socket.TCP_USER_TIMEOUT: 60_000}.items():
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
