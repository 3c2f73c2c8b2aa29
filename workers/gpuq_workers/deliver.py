"""Spooled events on their way to the dispatcher: in order, again after two seconds unless acknowledged, forgotten after.

The dispatcher takes only the next number of a host, so after a gap everything behind it comes again too. Redis being away
only delays: the spool is on disk.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from gpuq.errors import GpuqError
from gpuq.messages import wire
from gpuq_workers.spool import Spool

log = logging.getLogger("gpuq.deliver")

RESEND_AFTER_S = 2.0
_AT_ONCE = 200
_ANSWER_WITHIN_S = 5.0


class Inbox(Protocol):
    """The part of the stream that a worker service needs. Calls raise `gpuq.errors.Unreachable`."""

    async def add(self, *messages: wire.Message) -> None:
        """Put messages into the dispatcher's inbox, in order."""
        ...

    async def acknowledged(self, host: str) -> int | None:
        """Up to which number this host's events are committed; None if that is not known."""
        ...


class Delivery:
    """Sends what the spool holds."""

    def __init__(
        self, spool: Spool, inbox: Inbox, host: str, key: str, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._spool, self._inbox, self._host, self._key = spool, inbox, host, key
        self._monotonic = monotonic
        self._sent: dict[int, float] = {}
        self._reachable = True

    async def turn(self) -> None:
        """Forget what was acknowledged, send what is due."""
        if self._spool.unacknowledged():
            await self._try(self._exchange())

    async def catch_up(self) -> None:
        """Should our spool have been lost with its numbers, go on behind what the dispatcher knows of us."""
        if self._spool.last == 0:
            await self._try(self._learn_number())

    async def report(self, report: wire.HostReport) -> None:
        """Send a report; if that does not work it is lost, the next one follows in a second."""
        await self._try(self._inbox.add(wire.seal(report, self._key)))

    async def _exchange(self) -> None:
        self._forget(await self._inbox.acknowledged(self._host) or 0)
        for message in self._due():
            await self._inbox.add(wire.seal(message, self._key))
            self._sent[message.seq] = self._monotonic()

    async def _learn_number(self) -> None:
        self._spool.at_least(await self._inbox.acknowledged(self._host) or 0)

    async def _try(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await asyncio.wait_for(work, _ANSWER_WITHIN_S)
        except (GpuqError, OSError) as error:
            if self._reachable:
                log.warning("the dispatcher's inbox cannot be reached; events wait in the spool: %s", error)
            self._reachable = False
        else:
            if not self._reachable:
                log.info("the dispatcher's inbox can be reached again")
            self._reachable = True

    def _forget(self, acknowledged: int) -> None:
        try:
            self._spool.forget(acknowledged)
        except OSError as error:
            log.warning("the spool cannot be cleared now: %s", error)
        self._sent = {seq: at for seq, at in self._sent.items() if seq > acknowledged}

    def _due(self) -> list[wire.Spooled]:
        pending = self._spool.unacknowledged()
        now = self._monotonic()
        for place, message in enumerate(pending):
            if now - self._sent.get(message.seq, float("-inf")) >= RESEND_AFTER_S:
                # Whatever stands behind the first that is due would come to the dispatcher out of turn.
                return pending[place : place + _AT_ONCE]
        return []
