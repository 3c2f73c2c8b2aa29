"""Many clients in one process, each submitting one job after the other on its own connection.

It costs as little as can be, since it shares the cores with what it measures: a fixed request, and of the answer only the
status and the length. `python -m benchmarks.clients SOCKET COUNT CLIENTS` prints the seconds it took. Standard library only.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time


class HttpClient(asyncio.Protocol):
    """One connection: the next request goes out when the answer to the last is in."""

    def __init__(self, request: bytes, left: list[int], done: asyncio.Future[None]) -> None:
        self._request, self._left, self._done = request, left, done
        self._answer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ready; `go` starts it."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def go(self) -> None:
        """Submit one, if any is left to submit."""
        if self._left[0] > 0:
            self._left[0] -= 1
            self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Take the answer; anything but 201 ends the measurement."""
        self._answer += data
        head, separator, body = self._answer.partition(b"\r\n\r\n")
        if not separator or len(body) < _length(head):
            return
        self._answer = b""
        if not head.startswith(b"HTTP/1.1 201"):
            self._done.set_exception(RuntimeError(f"{head!r} {body!r}"))
            return
        self._left[1] -= 1
        if self._left[1] == 0:
            self._done.set_result(None)
        self.go()


def _length(head: bytes) -> int:
    return int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])


async def _submit(path: str, count: int, clients: int) -> float:
    body = json.dumps({"command": ["/bin/true"], "cwd": "/", "env": {"PATH": "/usr/bin:/bin"}}).encode()
    head = f"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    left = [count, count]
    request = head.encode() + b"\r\n\r\n" + body
    made = [await loop.create_unix_connection(lambda: HttpClient(request, left, done), path) for _ in range(clients)]
    began = time.perf_counter()
    for _, client in made:
        client.go()
    await done
    return time.perf_counter() - began


if __name__ == "__main__":
    print(asyncio.run(_submit(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
