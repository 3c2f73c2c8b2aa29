"""Logs of other hosts, through Redis: the API puts a signed request on the host's list, its worker service answers on another.

Both lists expire, so a host that was away has no old requests to answer, and answers that were not fetched do not pile up.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

from gpuq.adapters.job_log import Chunk
from gpuq.adapters.redis.host_mail import pop, push
from gpuq.adapters.redis.link import async_client, reaching
from gpuq.errors import Unreachable
from gpuq.messages import wire

ANSWER_WITHIN_S = 5.0


class HostLogs:
    """Reads the logs of other hosts. `key_of` gives the key that messages to and from a host are signed with."""

    def __init__(self, url: str, key_of: Callable[[str], str]) -> None:
        self._url, self._key_of = url, key_of
        self._client = async_client(url)

    async def read(self, host: str, job: int, attempt: int, offset: int, limit: int) -> Chunk | None:
        """As `job_log.read`, on that host. Raises Unreachable if Redis, or the host within five seconds, does not answer."""
        request = wire.LogRequest(host, secrets.token_hex(16), job, attempt, offset, min(limit, wire.LARGEST_LOG_PART))
        key, requests = self._key_of(host), wire.log_requests_key(host)
        with reaching(self._url):
            await push(self._client, requests, wire.encode(wire.seal(request, key)))
            raw = await pop(self._client, wire.log_answer_key(request.id), ANSWER_WITHIN_S)
        answer = None if raw is None else wire.genuine(raw, wire.LogAnswer, host, key)
        if answer is None or answer.id != request.id:
            raise Unreachable(f"Host {host} does not answer.", fix=f"Is gpuq-worker running on {host}?")
        return None if answer.data is None else Chunk(answer.data, answer.next_offset, answer.dropped)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()
