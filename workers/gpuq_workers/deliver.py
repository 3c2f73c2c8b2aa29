"""Deliver spooled events to the dispatcher: in order, sent again after two seconds unless acknowledged, then forgotten.

The dispatcher accepts only the next number of a host, so after a gap everything behind it is sent again. While Redis is
unreachable events wait in the spool on disk. Reports are numbered too, so that a repeated one does not count twice.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from gpuq.errors import GpuqError
from gpuq.messages import wire
from gpuq_workers.epoch import SeenEpoch
from gpuq_workers.spool import Spool
from gpuq_workers.uplink import Inbox

log = logging.getLogger(__name__)

RESEND_AFTER_S = 2.0
_REPORTS_REMEMBERED = 1000
_AT_ONCE = 200
_ANSWER_WITHIN_S = 5.0


def _uptime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Delivery:
    """Sends the events and reports of one host, signed with its key. Never raises for an unreachable inbox.

    Only an acknowledgement that is signed by the leader, and answers a report of this very process, counts: anyone who can write
    to Redis can write another there, or put back an old one. `on_answer` is called with the moment at which the report was sent,
    `on_pauses` and `on_loans` with the name of the dispatcher process and the attempts that are to stand still, or what is lent.
    """

    def __init__(
        self,
        spool: Spool,
        inbox: Inbox,
        host: str,
        key: str,
        seen_epoch: SeenEpoch,
        uptime: Callable[[], float] = _uptime,
    ) -> None:
        """`uptime` gives seconds for intervals, which also count while the machine is suspended."""
        self._spool, self._inbox, self._host, self._key, self._seen_epoch = spool, inbox, host, key, seen_epoch
        self._uptime = uptime
        self.on_answer: Callable[[float], None] = lambda _: None
        self.on_pauses: Callable[[str, wire.Pauses], None] = lambda _dispatcher, _pauses: None
        self.on_loans: Callable[[str, wire.Loans], None] = lambda _dispatcher, _loans: None
        self._worker = secrets.token_hex(8)
        self._reports = 0
        self._dispatcher = ""
        self._reported_at: dict[int, float] = {}
        # The number of the report that was answered last, and the number of the last event that was acknowledged with it.
        self._answered = (0, 0)
        self._sent: dict[int, float] = {}
        self._reachable = True

    async def poll(self) -> None:
        """Forget acknowledged events and send those that are due. Called ten times a second."""
        if self._spool.unacknowledged():
            await self._try(self._exchange())

    async def look(self) -> None:
        """Take in what the dispatcher has sent last."""
        await self._try(self._take_acknowledgement())

    async def report(self, report: wire.HostReport) -> None:
        """Send a report. One that cannot be sent is dropped: the next follows in a second."""
        await self._try(self._send_report(report))

    async def _send_report(self, report: wire.HostReport) -> None:
        # First, because the report has to name the dispatcher that runs now.
        await self._take_acknowledgement()
        self._reports += 1
        number = wire.ReportNumber(self._worker, self._reports, self._dispatcher)
        message = msgspec.structs.replace(
            report,
            last_seq=self._spool.last,
            first_seq=self._spool.first if self._spool.is_numbered else msgspec.UNSET,
            committed=self._spool.committed if self._spool.is_numbered else msgspec.UNSET,
            number=number,
            epoch=self._seen_epoch.highest(),
        )
        self._reported_at[self._reports] = self._uptime()
        self._reported_at.pop(self._reports - _REPORTS_REMEMBERED, None)
        await self._inbox.add(wire.seal(message, self._key))

    async def _exchange(self) -> None:
        # Acknowledgements first: what they remove need not be sent again.
        await self._take_acknowledgement()
        if not self._spool.is_numbered:
            return
        pending, now = self._spool.unacknowledged(), self._uptime()
        ages = (now - self._sent.get(message.seq, float("-inf")) for message in pending)
        due = next((index for index, age in enumerate(ages) if age >= RESEND_AFTER_S), len(pending))
        # The dispatcher would refuse those behind the first that is due, so they are sent again with it.
        for message in pending[due : due + _AT_ONCE]:
            await self._inbox.add(wire.seal(message, self._key))
            self._sent[message.seq] = self._uptime()

    async def _take_acknowledgement(self) -> None:
        raw = await self._inbox.acknowledged(self._host)
        if raw is None:
            return
        found = wire.genuine(raw, wire.Acknowledgement, self._host, self._key)
        if found is None:
            log.warning("an acknowledgement without the dispatcher's signature was ignored", extra={"action": "ignore"})
            return
        if not self._seen_epoch.admits(0 if isinstance(found.epoch, msgspec.UnsetType) else found.epoch):
            log.warning("an acknowledgement of a dispatcher that was replaced was ignored", extra={"action": "ignore"})
            return
        self._dispatcher = found.dispatcher
        # After a restart of this service the dispatcher expects a higher number than the last that it had from the one before.
        self._reports = max(self._reports, found.number)
        answered = (found.number, found.seq)
        if found.worker != self._worker or answered < self._answered:
            return
        if not isinstance(found.pauses, msgspec.UnsetType):
            self.on_pauses(found.dispatcher, found.pauses)
        if not isinstance(found.loans, msgspec.UnsetType):
            self.on_loans(found.dispatcher, found.loans)
        self._answered = answered
        self._note_answer(found.number)
        try:
            self._note_committed(found.seq)
        except OSError as error:
            log.warning("the spool cannot be brought up to date: %s", error, extra={"action": "clear_spool"})

    def _note_answer(self, number: int) -> None:
        """Report when the report with this number was sent: the leader has answered it, and none before it counts any more."""
        sent_at = self._reported_at.get(number)
        self._reported_at = {later: at for later, at in self._reported_at.items() if later > number}
        if sent_at is not None:
            try:
                self.on_answer(sent_at)
            except OSError as error:
                log.warning("the lease of the jobs cannot be renewed: %s", error, extra={"action": "renew"})

    def _note_committed(self, seq: int) -> None:
        if self._spool.is_numbered and seq <= self._spool.last:
            if seq < self._spool.committed:
                log.warning(
                    "the dispatcher's record lost events %d to %d of this host: they are sent again",
                    seq + 1,
                    self._spool.committed,
                    extra={"action": "send_again"},
                )
                self._spool.send_again(after=seq)
            self._spool.forget(seq)
        else:
            if seq > 0:
                # More than this spool has ever given: it is not the one that those events were sent from.
                log.warning(
                    "the dispatcher has %d events of this host, its spool was lost: numbers go on from there",
                    seq,
                    extra={"action": "number_spool"},
                )
            self._spool.continue_after(seq)
        self._sent = {number: at for number, at in self._sent.items() if number > seq}

    async def _try(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            # Not `wait_for`: in Python 3.11 it loses a cancellation that comes as its work ends, and the service would run on.
            async with asyncio.timeout(_ANSWER_WITHIN_S):
                await work
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
