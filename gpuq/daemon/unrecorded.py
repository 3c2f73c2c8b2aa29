"""Attempts that run on a host although the record does not have them, or has ended them: they are stopped.

Their launch was lost with the database (`lost.py`), or their host was reported as lost and is back. No queue shows them, they
cannot be cancelled, and their devices count as free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.device import HostId
from gpuq.core.state.events import HostReported
from gpuq.core.state.state import State

# The end of an attempt may overtake a report that still has it.
_REPORTED_FOR_S = 5.0


class UnrecordedAttempts:
    """What hosts report beyond the state. `note` gets a sentence about each attempt that is to be stopped, and its host."""

    def __init__(self, note: Callable[[str, HostId], None]) -> None:
        self._note = note
        self._since: dict[tuple[HostId, AttemptId], float] = {}
        self._noted: set[tuple[HostId, AttemptId]] = set()

    def heard(self, report: HostReported, state: State, now: float) -> None:
        """Take in a report, after it was applied."""
        found = {(report.host, one.attempt) for one in report.residents if one.attempt not in state.attempts}
        self._drop([key for key in self._since if key[0] == report.host and key not in found])
        for key in found:
            self._since.setdefault(key, now)

    def forget(self, host: HostId) -> None:
        """The host is gone."""
        self._drop([key for key in self._since if key[0] == host])

    def to_stop(self, now: float) -> Iterator[tuple[HostId, AttemptId]]:
        """The attempts that are to be stopped, each with its host."""
        for key, since in self._since.items():
            if now - since < _REPORTED_FOR_S:
                continue
            if key not in self._noted:
                self._noted.add(key)
                host, attempt = key
                self._note(f"attempt {attempt} runs on host {host} and not in the record: it is stopped", host)
            yield key

    def _drop(self, keys: list[tuple[HostId, AttemptId]]) -> None:
        for key in keys:
            del self._since[key]
            self._noted.discard(key)
