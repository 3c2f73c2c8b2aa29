"""One GPU's answers, shared out: what is each attempt's, what is the others', and whose energy it was.

Arrives: what the driver says of a GPU, and the owner of each of its processes. Leaves: the reading of the GPU, and the
usage of each attempt. What is not known stays unknown: a sum with an unknown part is None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from gpuq.adapters.devices import Resident, Usage
from gpuq.adapters.energy import Spent, share_out
from gpuq.core.attempt import AttemptId
from gpuq.core.device import DeviceId, Reading, Vitals

N = TypeVar("N", int, float)


@dataclass(frozen=True, slots=True)
class Seen:
    """What one GPU says now. `processes` gives bytes, None for one whose memory is not known; `shares` percent; `servers` are the
    MPS servers among them, which work for their clients and are nobody's own."""

    used: int | None
    utilization: float | None
    processes: Mapping[int, int | None] | None
    shares: Mapping[int, float] | None
    servers: frozenset[int]
    spent: Spent | None
    vitals: Vitals
    unwell: str | None


class Share:
    """One GPU's answers, shared out between our attempts and the others."""

    def __init__(self, seen: Seen, found: Mapping[int, AttemptId]) -> None:
        self._seen = seen
        pids = seen.processes or {}
        self._foreign = [pid for pid in pids if pid not in found and pid not in seen.servers]
        self._ours = {pid: found[pid] for pid in pids if pid in found}
        self._spent: Mapping[AttemptId | None, Spent] = {}

    def settle(self, residents: Sequence[AttemptId]) -> None:
        """Share out what was spent among all that are here; None stands for the others."""
        if self._seen.spent is None:
            return
        parties: dict[AttemptId | None, float | None] = {one: self.utilization_of(one) for one in residents}
        if self._foreign:
            parties[None] = self._foreign_utilization()
        self._spent = share_out(self._seen.spent, parties)

    def reading(self, now: float) -> Reading:
        """The GPU as a whole."""
        seen = self._seen
        return Reading(
            now,
            seen.used,
            seen.utilization,
            self._foreign_memory(),
            self._foreign_utilization(),
            seen.unwell,
            seen.vitals,
        )

    def memory_of(self, attempt: AttemptId) -> int | None:
        """Bytes of one attempt here; 0 before it has touched the GPU."""
        if self._seen.processes is None:
            return None
        return _sum_known([self._seen.processes[pid] for pid, owner in self._ours.items() if owner == attempt])

    def utilization_of(self, attempt: AttemptId) -> float | None:
        """Percent of one attempt here."""
        if self._seen.processes is None:
            return None
        if attempt not in self._ours.values():
            return 0.0
        if not self._foreign and set(self._ours.values()) == {attempt}:
            return self._seen.utilization
        return self._sum_shares([pid for pid, owner in self._ours.items() if owner == attempt])

    def spent_by(self, attempt: AttemptId) -> Spent | None:
        """One attempt's part of what was spent here."""
        return self._spent.get(attempt)

    def _foreign_memory(self) -> int | None:
        """What is used and not ours; the driver's own small leftovers count too."""
        seen = self._seen
        if seen.used is None or seen.processes is None:
            return None
        ours = _sum_known([seen.processes[pid] for pid in self._ours])
        if ours is None:
            return None if self._foreign else 0
        return max(0, seen.used - ours)

    def _foreign_utilization(self) -> float | None:
        if self._seen.processes is None:
            return None
        if not self._foreign:
            return 0.0
        return self._sum_shares(self._foreign) if self._ours else self._seen.utilization

    def _sum_shares(self, pids: Sequence[int]) -> float | None:
        shares = self._seen.shares
        # A driver that counts clients' work as their server's does not tell whose it was.
        if shares is None or any(shares.get(server) for server in self._seen.servers):
            return None
        return min(100.0, sum(shares.get(pid, 0.0) for pid in pids))


def usage_of(resident: Resident, shares: Mapping[DeviceId, Share]) -> Usage:
    """Bytes and percent on the device where each is highest: promises and budgets are per device. None if one does not answer."""
    here = [shares[device] for device in resident.devices if device in shares]
    if not here or len(here) < len(resident.devices):
        return Usage(None, None)
    spent = [share.spent_by(resident.attempt) for share in here]
    return Usage(
        _highest_known([share.memory_of(resident.attempt) for share in here]),
        _highest_known([share.utilization_of(resident.attempt) for share in here]),
        _sum_known([None if one is None else one.joules for one in spent]),
        _sum_known([None if one is None else one.idle for one in spent]),
    )


def _highest_known(values: Sequence[N | None]) -> N | None:
    known = [value for value in values if value is not None]
    return max(known) if known and len(known) == len(values) else None


def _sum_known(values: Sequence[N | None]) -> N | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
