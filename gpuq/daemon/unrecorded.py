"""Attempts that run on a host although the record does not have them, or has ended them: they are stopped.

Their launch was lost with the database (`lost.py`), or their host was reported as lost and is back. No queue shows them, they
cannot be cancelled, and their devices count as free. A host that is away gets no orders: its next report says what runs there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.device import HostId
from gpuq.core.state.events import HostReported
from gpuq.core.state.state import State
from gpuq.messages.wire import Order, Verb

log = logging.getLogger(__name__)

# The end of an attempt may overtake a report that still has it.
_REPORTED_FOR_S = 5.0
_STOP_AGAIN_S = 2.0
_HEARD_WITHIN_S = 10.0


class UnrecordedAttempts:
    """What hosts report beyond the state. `note` gets a sentence about each attempt that is stopped, and its host."""

    def __init__(self, note: Callable[[str, HostId], None]) -> None:
        self._note = note
        self._due_at: dict[tuple[HostId, AttemptId], float] = {}
        self._stopped: set[tuple[HostId, AttemptId]] = set()
        self._heard_at: dict[HostId, float] = {}

    def heard(self, report: HostReported, state: State, now: float) -> None:
        """Take in a report, after it was applied."""
        self._heard_at[report.host] = now
        found = {(report.host, one.attempt) for one in report.residents if one.attempt not in state.attempts}
        gone = {key for key in self._due_at if key[0] == report.host} - found
        for key in gone:
            del self._due_at[key]
        self._stopped -= gone
        for key in found:
            self._due_at.setdefault(key, now + _REPORTED_FOR_S)

    def orders(self, number: int, epoch: int, now: float) -> Iterator[Order]:
        """The stops that are due, with this number in their ids."""
        for key, due_at in self._due_at.items():
            host, attempt = key
            if now < due_at or now - self._heard_at[host] > _HEARD_WITHIN_S:
                continue
            self._due_at[key] = now + _STOP_AGAIN_S
            if key not in self._stopped:
                self._stopped.add(key)
                self._note(f"attempt {attempt} runs on host {host} and not in the record: it is stopped", host)
            yield Order(host, attempt.job, attempt.number, number, Verb.STOP, None, epoch)
