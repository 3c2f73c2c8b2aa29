"""Logs of other hosts, through Redis: the API puts a signed request on the host's list, its worker service answers on another.

Both lists expire, so a host that was away has no old requests to answer, and answers that were not fetched do not pile up.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

from redis.asyncio import Redis

from gpuq.adapters.job_log import Chunk, read
from gpuq.adapters.redis.link import async_client, reaching
from gpuq.errors import Unreachable
from gpuq.messages import wire

ANSWER_WITHIN_S = 5.0
_EXPIRE_S = 10
# Shorter than the client's time-out, so that waiting differs from a dead connection.
_WAIT_S = 2.0
_PAUSE_S = 1.0
_MOST_BYTES = 256 * 1024
_log = logging.getLogger(__name__)


class HostLogs:
    """Reads the logs of other hosts. `key_of` gives the key that messages to and from a host are signed with."""

    def __init__(self, url: str, key_of: Callable[[str], str]) -> None:
        self._url, self._key_of = url, key_of
        self._client = async_client(url)

    async def read(self, host: str, job: int, attempt: int, offset: int, limit: int) -> Chunk | None:
        """As `job_log.read`, on that host. Raises Unreachable if Redis, or the host within five seconds, does not answer."""
        request = wire.LogRequest(host, secrets.token_hex(16), job, attempt, offset, min(limit, _MOST_BYTES))
        key, requests = self._key_of(host), wire.log_requests_key(host)
        with reaching(self._url):
            await _push(self._client, requests, wire.encode(wire.seal(request, key)))
            raw = await _next(self._client.blpop, wire.log_answer_key(request.id), ANSWER_WITHIN_S)
        answer = None if raw is None else wire.genuine(raw, wire.LogAnswer, host, key)
        if answer is None or answer.id != request.id:
            raise Unreachable(f"Host {host} does not answer.", fix=f"Is gpuq-worker running on {host}?")
        return None if answer.data is None else Chunk(answer.data, answer.next_offset, answer.dropped)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


async def serve_logs(url: str, host: str, key: str, attempts: Path) -> None:
    """Answer requests for the logs below `attempts`, until cancelled."""
    client = async_client(url)
    try:
        while True:
            try:
                with reaching(url):
                    raw = await _next(client.blpop, wire.log_requests_key(host), _WAIT_S)
                    request = None if raw is None else wire.genuine(raw, wire.LogRequest, host, key)
                    if request is None:
                        if raw is not None:
                            _log.warning(
                                "dropped a request for a log: it is not signed", extra={"action": "drop_forged"}
                            )
                        continue
                    answer = await asyncio.to_thread(_answer, request, attempts)
                    await _push(client, wire.log_answer_key(request.id), wire.encode(wire.seal(answer, key)))
            except Unreachable:
                await asyncio.sleep(_PAUSE_S)  # the delivery of events logs that Redis is away
    finally:
        await client.aclose()


def _answer(request: wire.LogRequest, attempts: Path) -> wire.LogAnswer:
    limit = max(0, min(request.limit, _MOST_BYTES))
    chunk = read(attempts, request.job, request.attempt, request.offset, limit)
    if chunk is None:
        return wire.LogAnswer(request.host, request.id, None)
    return wire.LogAnswer(request.host, request.id, chunk.data, chunk.next_offset, chunk.dropped)


async def _push(client: Redis, key: str, raw: bytes) -> None:
    """Add to a list that expires."""
    async with client.pipeline(transaction=True) as pipe:
        pipe.rpush(key, raw)
        pipe.expire(key, _EXPIRE_S)
        await pipe.execute()


async def _next(pop: Callable[..., object], key: str, within_s: float) -> bytes | None:
    """The next value of a list, or None."""
    deadline = asyncio.get_running_loop().time() + within_s
    while (left := deadline - asyncio.get_running_loop().time()) > 0:
        found = await cast(Awaitable[list[bytes] | None], pop([key], min(left, _WAIT_S)))
        if found is not None:
            return found[1]
    return None
