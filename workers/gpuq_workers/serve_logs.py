"""Answer signed requests for the logs of attempts that ran on this host."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Protocol

from gpuq.adapters.job_log import read
from gpuq.errors import Unreachable
from gpuq.messages import wire

_PAUSE_S = 1.0
log = logging.getLogger(__name__)


class LogRequests(Protocol):
    """The requests for the logs of one host. Calls raise Unreachable."""

    async def log_request(self) -> bytes | None:
        """The next request; None if none comes within two seconds."""
        ...

    async def log_answer(self, request: str, answer: bytes) -> None:
        """Answer the request with this id."""
        ...


async def serve_logs(requests: LogRequests, host: str, key: str, attempts: Path) -> None:
    """Answer requests for the logs below `attempts`, until cancelled."""
    while True:
        try:
            raw = await requests.log_request()
            request = None if raw is None else wire.genuine(raw, wire.LogRequest, host, key)
            if request is None:
                if raw is not None:
                    log.warning("dropped a request for a log: it is not signed", extra={"action": "drop_forged"})
                continue
            answer = await asyncio.to_thread(_answer, request, attempts)
            await requests.log_answer(request.id, wire.encode(wire.seal(answer, key)))
        except Unreachable:
            await asyncio.sleep(_PAUSE_S)  # the delivery of events logs that the dispatcher is away


def _answer(request: wire.LogRequest, attempts: Path) -> wire.LogAnswer:
    limit = max(0, min(request.limit, wire.LARGEST_LOG_PART))
    chunk = read(attempts, request.job, request.attempt, request.offset, limit)
    if chunk is None:
        return wire.LogAnswer(request.host, request.id, None)
    return wire.LogAnswer(request.host, request.id, chunk.data, chunk.next_offset, chunk.dropped)
