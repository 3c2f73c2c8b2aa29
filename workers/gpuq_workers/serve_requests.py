"""Answer what the API asks of this host: for logs and files of attempts that ran here, and for connections to those that are
interactive.

Requests are signed, and may be replayed: a log then has no reader, and nothing waits for the connection.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from pathlib import Path
from typing import Protocol

from gpuq.adapters.job_log import read
from gpuq.adapters.job_socket import connect
from gpuq.errors import GpuqError, Unreachable
from gpuq.home import is_folder
from gpuq.messages import wire
from gpuq_workers import results, sync
from gpuq_workers.attempts import job_path

_PAUSE_S = 1.0
_MOST_CHANNELS = 256
log = logging.getLogger(__name__)


class HostRequests(Protocol):
    """The requests to one host. Calls raise Unreachable."""

    async def log_request(self) -> bytes | None:
        """The next request; None if none comes within two seconds."""
        ...

    async def log_answer(self, request: str, answer: bytes) -> None:
        """Answer the request with this id."""
        ...

    async def hand_over(self, request: str, connection: socket.socket | None) -> None:
        """Give the connection that was asked for under this id, or None for there is none. Returns when it may be closed here."""
        ...


async def serve_requests(requests: HostRequests, host: str, key: str, attempts: Path) -> None:
    """Answer requests for what is below `attempts`, until cancelled."""
    channels: set[asyncio.Task[None]] = set()
    try:
        while True:
            try:
                raw = await requests.log_request()
                if raw is None:
                    continue
                channel = wire.genuine(raw, wire.ChannelRequest, host, key)
                if channel is not None:
                    if len(channels) < _MOST_CHANNELS:
                        task = asyncio.create_task(_open(requests, channel, attempts))
                        channels.add(task)
                        task.add_done_callback(channels.discard)
                    continue
                request = wire.genuine(raw, wire.LogRequest, host, key)
                if request is None:
                    log.warning("dropped a request: it is not signed", extra={"action": "drop_forged"})
                    continue
                answer = await asyncio.to_thread(_answer, request, attempts)
                await requests.log_answer(request.id, wire.encode(wire.seal(answer, key)))
            except Unreachable:
                await asyncio.sleep(_PAUSE_S)  # the delivery of events logs that the dispatcher is away
    finally:
        for task in channels:
            task.cancel()


async def _open(requests: HostRequests, request: wire.ChannelRequest, attempts: Path) -> None:
    if request.name == "files":
        connection = _serve_files(job_path(attempts / f"{request.job}-{request.attempt}"))
    else:
        connection = await asyncio.to_thread(connect, attempts, request.job, request.attempt, request.name)
    try:
        await requests.hand_over(request.id, connection)
    except GpuqError as error:
        log.info("a connection to job %d ended: %s", request.job, error, extra={"action": "channel"})
    finally:
        if connection is not None:
            connection.close()


def _serve_files(attempt: Path) -> socket.socket | None:
    """A connection that gives the files of the attempt; None where it has none."""
    if not is_folder(attempt / sync.FOLDER):
        return None
    ours, theirs = socket.socketpair()
    # A thread of its own: who reads slowly keeps no log from being read.
    threading.Thread(target=results.serve, args=(ours, attempt), name="results", daemon=True).start()
    return theirs


def _answer(request: wire.LogRequest, attempts: Path) -> wire.LogAnswer:
    limit = max(0, min(request.limit, wire.LARGEST_LOG_PART))
    chunk = read(attempts, request.job, request.attempt, request.offset, limit)
    if chunk is None:
        return wire.LogAnswer(request.host, request.id, None)
    return wire.LogAnswer(request.host, request.id, chunk.data, chunk.next_offset, chunk.dropped)
