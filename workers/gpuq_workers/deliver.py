"""Deliver spooled events to the dispatcher: in order, sent again after two seconds unless acknowledged, then forgotten.

The dispatcher accepts only the next number of a host, so after a gap everything behind it is sent again. While Redis is
unreachable events wait in the spool on disk.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from gpuq.errors import GpuqError
from gpuq.messages import wire
from gpuq_workers.spool import Spool

if TYPE_CHECKING:  # importing it would load the Redis library
    from gpuq.adapters.redis.stream import Stream

log = logging.getLogger(__name__)

RESEND_AFTER_S = 2.0
_AT_ONCE = 200
_ANSWER_WITHIN_S = 5.0


class Delivery:
    """Sends the events of one host's spool. Signs them with the order key. Never raises for an unreachable inbox."""

    def __init__(
        self, spool: Spool, inbox: Stream, host: str, key: str, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._spool, self._inbox, self._host, self._key = spool, inbox, host, key
        self._monotonic = monotonic
        self._sent: dict[int, float] = {}
        self._reachable = True

    async def poll(self) -> None:
        """Forget acknowledged events and send those that are due. Called ten times a second."""
        if self._spool.unacknowledged():
            await self._try(self._exchange())

    async def catch_up(self) -> None:
        """Continue the numbering from the dispatcher's count if our spool, and its numbers with it, was lost."""
        if self._spool.last == 0:
            await self._try(self._learn_number())

    async def report(self, report: wire.HostReport) -> None:
        """Send a report. One that cannot be sent is dropped: the next follows in a second."""
        await self._try(self._inbox.add(wire.seal(report, self._key)))

    async def _exchange(self) -> None:
        # Acknowledgements first: what they remove need not be sent again.
        acknowledged = await self._inbox.acknowledged(self._host) or 0
        try:
            self._spool.forget(acknowledged)
        except OSError as error:
            log.warning(
                "acknowledged events cannot be removed from the spool: %s", error, extra={"action": "clear_spool"}
            )
        self._sent = {seq: at for seq, at in self._sent.items() if seq > acknowledged}
        pending, now = self._spool.unacknowledged(), self._monotonic()
        ages = (now - self._sent.get(message.seq, float("-inf")) for message in pending)
        due = next((index for index, age in enumerate(ages) if age >= RESEND_AFTER_S), len(pending))
        # The dispatcher would refuse those behind the first that is due, so they are sent again with it.
        for message in pending[due : due + _AT_ONCE]:
            await self._inbox.add(wire.seal(message, self._key))
            self._sent[message.seq] = self._monotonic()

    async def _learn_number(self) -> None:
        self._spool.at_least(await self._inbox.acknowledged(self._host) or 0)

    async def _try(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await asyncio.wait_for(work, _ANSWER_WITHIN_S)
        except (GpuqError, OSError) as error:
            if self._reachable:
                log.warning(
                    "the dispatcher's inbox is unreachable; events wait in the spool: %s",
                    error,
                    extra={"action": "deliver"},
                )
            self._reachable = False
        else:
            if not self._reachable:
                log.info("the dispatcher's inbox is reachable again", extra={"action": "deliver"})
            self._reachable = True
