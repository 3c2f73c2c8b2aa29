"""Connections to interactive jobs, and for files of jobs: the endpoint asks the job's host for one through Redis, and takes it as
`handover` describes.

Only the signed request is in Redis, never what is typed or printed.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

from gpuq.adapters.handover import Handover
from gpuq.adapters.redis.host_mail import push
from gpuq.adapters.redis.link import async_client, reaching
from gpuq.errors import Conflict, Unreachable
from gpuq.messages import wire
from gpuq.messages.launch import ChannelName

ANSWER_WITHIN_S = 5.0


class HostChannels:
    """Opens connections to jobs on any host. `key_of` gives the key of a host, `run` is the folder of this home's sockets."""

    def __init__(self, url: str, key_of: Callable[[str], str], run: Path) -> None:
        self._url, self._key_of, self._run = url, key_of, run
        self._client = async_client(url)

    async def open(self, host: str, job: int, attempt: int, name: ChannelName) -> socket.socket:
        """A connection to this socket of an attempt, or for its files (`gpuq_workers.results`). Raises Unreachable if its host
        does not answer, Conflict if the job does not listen there."""
        with Handover(self._run, host) as handover:
            request = wire.ChannelRequest(host, handover.id, job, attempt, name)
            with reaching(self._url):
                await push(
                    self._client, wire.log_requests_key(host), wire.encode(wire.seal(request, self._key_of(host)))
                )
            try:
                connection = await handover.take(ANSWER_WITHIN_S)
            except TimeoutError as error:
                raise Unreachable(f"Host {host} does not answer.", fix=f"Is gpuq-worker running on {host}?") from error
        if connection is None:
            raise Conflict(
                f"Job {job} does not listen for this now.",
                fix="A job that was just started may need a moment; one that runs a batch script has no terminal.",
            )
        return connection

    async def close(self) -> None:
        """Close the connections to Redis; those to jobs stay open."""
        await self._client.aclose()
