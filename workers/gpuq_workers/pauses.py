"""Longer pauses: attempts stand still while others run, for as long as the dispatcher says so.

The dispatcher repeats five times a second which attempts are to stand still (`wire.Pauses`). Each time this renews the lease of
their shims (`shim/blink.py`), which let the job go on once the lease has ended. So a job goes on within a second of the loss of
the dispatcher, of Redis, or of this process; and as soon as this sees the end of the attempt that it stood still for.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from gpuq.core.state.attempt import AttemptId
from gpuq.messages.wire import Pauses
from gpuq_workers.attempts import AttemptFolder
from gpuq_workers.measuring.sample import WatchedResident

log = logging.getLogger(__name__)

LEASE_S = 0.6


@dataclass
class Pauser:
    """Renews and ends the leases. `look` fetches what the dispatcher has sent last, and calls `heard`."""

    residents: Callable[[], Sequence[WatchedResident]]
    present: Callable[[], Sequence[AttemptId]]
    look: Callable[[], Awaitable[None]]
    clock: Callable[[], float] = time.monotonic
    _wanted: dict[AttemptId, AttemptId] = field(default_factory=dict)
    _until: float = 0.0
    _beat: int = -1
    _dispatcher: str = ""
    _held: dict[AttemptId, int] = field(default_factory=dict)

    def heard(self, dispatcher: str, pauses: Pauses) -> None:
        """Take in what a dispatcher process has sent. What was sent before says nothing about the present."""
        if dispatcher == self._dispatcher and pauses.beat <= self._beat:
            return
        if dispatcher == self._dispatcher:
            self._wanted = {one.held: one.runs for one in pauses.held}
            self._until = self.clock() + LEASE_S
        self._dispatcher, self._beat = dispatcher, pauses.beat

    async def poll(self) -> None:
        """Renew the leases of those that are to stand still, and end those of the others. Called ten times a second."""
        residents = self.residents()
        if not self._held and len({device for one in residents for device in one.devices}) == sum(
            len(one.devices) for one in residents
        ):
            return
        await self.look()
        running, present = {one.attempt: one for one in residents}, set(self.present())
        wanted = (
            {held for held, runs in self._wanted.items() if runs in present} if self.clock() < self._until else set()
        )
        for attempt in wanted & running.keys():
            number = self._held.setdefault(attempt, int(self.clock() * 1000))
            self._write(running[attempt], number, self._until)
        for attempt in self._held.keys() - wanted:
            number = self._held.pop(attempt)
            if attempt in running:
                self._write(running[attempt], number, 0.0)

    def _write(self, resident: WatchedResident, number: int, until: float) -> None:
        try:
            AttemptFolder(resident.folder, resident.attempt).keep_paused(number, until)
        except OSError as error:
            log.warning(
                "a pause cannot be renewed: %s", error, extra={"action": "pause", "attempt": str(resident.attempt)}
            )
