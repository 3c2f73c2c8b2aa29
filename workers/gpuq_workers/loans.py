"""Loans of idle cores: attempts read in `loan.json` which cores they may use besides their devices.

The dispatcher repeats five times a second which cores are lent (`wire.Loans`), and at once when that changes. Each time this
renews the loan's time in the file. So cores come back within a second of the loss of the dispatcher, Redis, or this process.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from gpuq.core.state.attempt import AttemptId
from gpuq.messages.wire import Loans
from gpuq_workers.attempts import AttemptFolder
from gpuq_workers.measuring.sample import WatchedResident

log = logging.getLogger(__name__)

LEASE_S = 0.6


@dataclass
class Lender:
    """Writes the loans down. `look` fetches what the dispatcher has sent last, and calls `heard`."""

    residents: Callable[[], Sequence[WatchedResident]]
    look: Callable[[], Awaitable[None]]
    clock: Callable[[], float] = time.monotonic
    _lent: dict[AttemptId, tuple[int, ...]] = field(default_factory=dict)
    _until: float = 0.0
    _beat: int = -1
    _dispatcher: str = ""
    _written: dict[AttemptId, tuple[tuple[int, ...], float]] = field(default_factory=dict)

    def heard(self, dispatcher: str, loans: Loans) -> None:
        """Take in what a dispatcher process has sent. What was sent before says nothing about the present."""
        if dispatcher == self._dispatcher and loans.beat > self._beat:
            self._lent = {one.borrower: one.cores for one in loans.lent}
            self._until = self.clock() + LEASE_S
        if dispatcher != self._dispatcher or loans.beat > self._beat:
            self._dispatcher, self._beat = dispatcher, loans.beat

    async def poll(self) -> None:
        """Renew what is lent, and take back what is not any more. Called often: until this has looked, a job waits
        beside the borrower for its own cores."""
        borrowers = [one for one in self.residents() if one.borrows]
        if not borrowers:
            return
        await self.look()
        is_current = self.clock() < self._until
        for one in borrowers:
            cores = self._lent.get(one.attempt, ()) if is_current else ()
            loan = (cores, self._until if cores else 0.0)
            if loan != self._written.get(one.attempt, ((), 0.0)):
                self._write(one, loan)

    def _write(self, resident: WatchedResident, loan: tuple[tuple[int, ...], float]) -> None:
        try:
            AttemptFolder(resident.folder, resident.attempt).lend(*loan)
            self._written[resident.attempt] = loan
        except OSError as error:
            log.warning(
                "a loan cannot be written: %s", error, extra={"action": "lend", "attempt": str(resident.attempt)}
            )
