"""What waits in Redis for one host: orders, and what the API asks of it.

The worker service of the main host takes it there itself, its orders through RQ. For a host that joined, which cannot reach
Redis, the listener of the main host does. An order is deleted once it was taken, as RQ's worker does; a lost one is sent again.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

from redis.asyncio import Redis
from rq.job import Job
from rq.queue import Queue

from gpuq.adapters import handover
from gpuq.adapters.redis.link import on_key, reaching
from gpuq.adapters.redis.queue import RefusedError, argument_in
from gpuq.messages import wire

WAIT_S = 2.0
"""How long a call waits: shorter than the client's time-out, so that waiting differs from a dead connection."""
EXPIRE_S = 10
_log = logging.getLogger(__name__)


class HostMail:
    """The mail of `host` in the Redis at `url`. It does not close the client."""

    def __init__(self, url: str, client: Redis, host: str) -> None:
        self._url, self._client, self._host = url, client, host

    async def log_request(self) -> bytes | None:
        """The next request for a log or a connection; None if none comes within two seconds."""
        with reaching(self._url):
            return await pop(self._client, wire.log_requests_key(self._host), WAIT_S)

    async def log_answer(self, request: str, answer: bytes) -> None:
        """Answer the request with this id."""
        with reaching(self._url):
            await push(self._client, wire.log_answer_key(request), answer)

    async def order(self) -> Any | None:
        """The next order, as it was signed; None if none comes within two seconds. What is none is dropped and logged."""
        queue = f"{Queue.redis_queue_namespace_prefix}{wire.queue_name(self._host)}"
        with reaching(self._url):
            found = await pop(self._client, queue, WAIT_S)
            if found is None:
                return None
            key = Job.key_for(found.decode(errors="replace"))
            raw = await on_key(self._client, key, partial(self._taken, key))
        try:
            return argument_in(raw)
        except RefusedError as refused:
            _log.warning("message %.100r was refused: %s", found, refused, extra={"action": "drop_order"})
            return None

    async def _taken(self, key: str) -> dict[Any, Any]:
        async with self._client.pipeline(transaction=True) as pipe:
            pipe.hgetall(key)
            pipe.delete(key)
            raw: dict[Any, Any] = (await pipe.execute())[0]
            return raw


class MainHostMail(HostMail):
    """The mail of a host on which the API runs, with `run` as the folder of its sockets."""

    def __init__(self, url: str, client: Redis, host: str, run: Path) -> None:
        super().__init__(url, client, host)
        self._run = run

    async def hand_over(self, request: str, connection: socket.socket | None) -> None:
        """Give the API the connection that it asked for under this id, or None for there is none. Raises Unreachable."""
        await asyncio.to_thread(handover.give, self._run, request, self._host, connection)


async def push(client: Redis, key: str, raw: bytes) -> None:
    """Add to a list that expires."""

    async def add() -> None:
        async with client.pipeline(transaction=True) as pipe:
            pipe.rpush(key, raw)
            pipe.expire(key, EXPIRE_S)
            await pipe.execute()

    await on_key(client, key, add)


async def pop(client: Redis, key: str, within_s: float) -> bytes | None:
    """The next value of a list, or None."""
    deadline = asyncio.get_running_loop().time() + within_s
    while (left := deadline - asyncio.get_running_loop().time()) > 0:
        take = partial(client.blpop, [key], min(left, WAIT_S))
        found = await on_key(client, key, cast(Callable[[], Awaitable[list[bytes] | None]], take))
        if found is not None:
            return found[1]
    return None
