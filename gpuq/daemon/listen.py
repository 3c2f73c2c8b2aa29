"""Messages from the stream, read ahead of the dispatcher's cycles, and when each was sent."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from gpuq.adapters.redis.stream import Stream, sent_at
from gpuq.daemon.clock import SteadyClock
from gpuq.errors import Unreachable
from gpuq.messages.wire import Message, WakeUp

log = logging.getLogger(__name__)

_READ_S = 1.0
_RETRY_S = 0.5
_READ_AT_ONCE = 1000


class Listener:
    """Reads the stream in a task of its own; a cycle takes all that has come."""

    def __init__(self, stream: Stream, clock: SteadyClock) -> None:
        self._stream, self._clock = stream, clock
        self._read: asyncio.Queue[list[tuple[str, Message]]] = asyncio.Queue(maxsize=8)
        # How far the clock of the Redis server is ahead of ours: a message's age follows from its id.
        self._server_ahead_s: float | None = None

    async def listen(self) -> None:
        """Read messages until cancelled."""
        while True:
            try:
                messages = await self._stream.read(_READ_S, _READ_AT_ONCE)
            except Unreachable as error:
                log.warning("inbox: %s", error.message, extra={"action": "listen"})
                await asyncio.sleep(_RETRY_S)
                continue
            if messages:
                if self._server_ahead_s is None:
                    await self._compare_clocks()
                await self._read.put(list(messages))
                # For the next messages: these need not wait for an answer. The age of a wake-up is not looked at, and the start
                # of a job waits for what follows from one.
                if any(not isinstance(message, WakeUp) for _, message in messages):
                    await self._compare_clocks()

    async def _compare_clocks(self) -> None:
        with suppress(Unreachable):  # the last difference serves for the moment
            self._server_ahead_s = await self._stream.time() - self._clock()

    async def next_messages(self, wait_s: float) -> list[tuple[str, Message]]:
        """All messages that were read, by their ids. Where there are none, waits up to `wait_s` seconds for the first."""
        messages: list[tuple[str, Message]] = []
        if self._read.empty() and wait_s > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    messages = await self._read.get()
        while not self._read.empty():
            messages.extend(self._read.get_nowait())
        return messages

    def sent_at(self, message_id: str, now: float) -> float:
        """When a message was added to the stream, by our clock. A message that waited there is as old as its id says."""
        return now if self._server_ahead_s is None else min(now, sent_at(message_id) - self._server_ahead_s)
