"""Copy bytes between a WebSocket and a socket, both ways, until one of them ends.

Each side is read only as fast as the other takes it, so at most some pieces are held here.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any, Protocol

from aiohttp import WSMsgType

PIECE = 65_536
LARGEST_MESSAGE = 2**20


class WebSocket(Protocol):
    """What the server's and the client's WebSocket of aiohttp have in common."""

    async def receive(self) -> Any:
        """The next message."""
        ...

    async def send_bytes(self, data: bytes) -> None:
        """Send a binary message; waits while the other side is slow."""
        ...


async def relay(web_socket: WebSocket, connection: socket.socket) -> None:
    """Copy until one side ends or is lost, or a message comes that is not binary. Neither side is closed."""
    copying = {asyncio.create_task(_up(web_socket, connection)), asyncio.create_task(_down(web_socket, connection))}
    try:
        await asyncio.wait(copying, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in copying:
            task.cancel()
        await asyncio.gather(*copying, return_exceptions=True)


async def _up(web_socket: WebSocket, connection: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    while (message := await web_socket.receive()).type is WSMsgType.BINARY:
        await loop.sock_sendall(connection, message.data)


async def _down(web_socket: WebSocket, connection: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    while data := await loop.sock_recv(connection, PIECE):
        await web_socket.send_bytes(data)
