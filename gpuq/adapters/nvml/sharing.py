"""One GPU's answers, shared out: what is each attempt's, what is the others', and whose energy it was.

Arrives: what the driver says of a GPU, and the owner of each of its processes. Leaves: the reading of the GPU, and the
usage of each attempt. What is not known stays unknown: a sum with an unknown part is None.

Not every driver shows the processes of our jobs: under WSL 2 and on some vGPUs it lists none, and in a container with process
numbers of its own it lists the host's numbers, or none. There, an attempt that is alone on the GPU has what the GPU shows
beyond the level before its start, and attempts that share the GPU have None. Where processes of others are listed and none of
ours, an attempt has 0 if all of those were there before it. If one came later, the attempt has None: that process may be its
own, in a container that it started.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from gpuq.adapters.devices import ResidentProcess, ResidentUsage
from gpuq.adapters.nvml.energy import EnergyPart, share_out
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.device import DeviceId, Reading, Vitals

N = TypeVar("N", int, float)


@dataclass(frozen=True, slots=True)
class GpuObservation:
    """What one GPU says now. `processes` gives bytes, None for one whose memory is not known; `shares` percent; `servers` are the
    MPS servers among them, which work for their clients and are nobody's own."""

    used: int | None
    utilization: float | None
    processes: Mapping[int, int | None] | None
    shares: Mapping[int, float] | None
    servers: frozenset[int]
    spent: EnergyPart | None
    vitals: Vitals
    unwell: str | None


@dataclass(frozen=True, slots=True)
class Baseline:
    """What a GPU showed before our attempts came: bytes, percent, and the processes of others that could be looked at."""

    used: int | None
    utilization: float | None
    others: frozenset[int]


class GpuShares:
    """One GPU's answers, shared out between our attempts and the others."""

    def __init__(
        self,
        seen: GpuObservation,
        found: Mapping[int, AttemptId | None],
        residents: Sequence[AttemptId] = (),
        before: Baseline | None = None,
    ) -> None:
        """`found`: the owner of each process that can be looked at, None for one that is not ours. `residents`: our attempts on
        this GPU. `before`: the level before they came, None if that is not known."""
        self._seen, self._residents, self._before = seen, residents, before
        pids = seen.processes or {}
        self._ours = {pid: owner for pid in pids if (owner := found.get(pid)) is not None}
        self._others = frozenset(pid for pid in pids if pid in found and found[pid] is None) - seen.servers
        self._hidden = bool(residents) and not self._ours and not self._others
        foreign = [pid for pid in pids if pid not in self._ours and pid not in seen.servers]
        self._foreign = [] if self._hidden else foreign
        self._spent: Mapping[AttemptId | None, EnergyPart] = {}

    @property
    def level(self) -> Baseline | None:
        """The level that the next look is to be compared with.

        While our attempts' processes are not shown it only falls: shortly after a job's end the driver may still count its
        load, and an attempt that came meanwhile must not be measured against that.
        """
        seen, before = self._seen, self._before
        if not self._residents:
            return Baseline(seen.used, seen.utilization, self._others)
        if before is None or not self._hidden:
            return before
        return Baseline(_lower(before.used, seen.used), _lower(before.utilization, seen.utilization), before.others)

    @property
    def shows_ours(self) -> bool | None:
        """Whether the driver shows our attempts' processes; None while they use nothing that could be shown."""
        if self._ours:
            return True
        used, before = self._seen.used, self._before
        return False if self._hidden and used and before and used > (before.used or 0) else None

    def settle(self) -> None:
        """Share out what was spent among all that are here; None stands for the others."""
        if self._seen.spent is None:
            return
        parties: dict[AttemptId | None, float | None] = {one: self.utilization_of(one) for one in self._residents}
        if self._foreign:
            parties[None] = self._foreign_utilization()
        self._spent = share_out(self._seen.spent, parties)

    def reading(self, now: float, processes_visible: bool | None = None) -> Reading:
        """The GPU as a whole. `processes_visible`: what all looks together say of that."""
        seen = self._seen
        return Reading(
            now,
            seen.used,
            seen.utilization,
            self._foreign_memory(),
            self._foreign_utilization(),
            seen.unwell,
            seen.vitals,
            processes_visible,
        )

    def memory_of(self, attempt: AttemptId) -> int | None:
        """Bytes of one attempt here; 0 before it has touched the GPU."""
        processes = self._seen.processes
        if processes is None or not self._ours:
            return self._beyond(self._seen.used, None if self._before is None else self._before.used)
        return _sum_known([processes[pid] for pid, owner in self._ours.items() if owner == attempt])

    def utilization_of(self, attempt: AttemptId) -> float | None:
        """Percent of one attempt here."""
        if not self._ours:
            return self._beyond(self._seen.utilization, None if self._before is None else self._before.utilization)
        if attempt not in self._ours.values():
            return 0.0
        if not self._foreign and set(self._ours.values()) == {attempt}:
            return self._seen.utilization
        return self._sum_shares([pid for pid, owner in self._ours.items() if owner == attempt])

    def _beyond(self, now: N | None, before: N | None) -> N | None:
        """What an attempt has here while no process of ours is shown, from what the GPU shows now and showed before it."""
        if now is None or before is None or self._before is None:
            return None
        if self._others:
            return 0 if self._others <= self._before.others else None
        return max(now - before, 0) if len(self._residents) == 1 else None

    def spent_by(self, attempt: AttemptId) -> EnergyPart | None:
        """One attempt's part of what was spent here."""
        return self._spent.get(attempt)

    def _foreign_memory(self) -> int | None:
        """What is used and not ours; the driver's own small leftovers count too."""
        seen = self._seen
        if seen.used is None:
            return None
        if self._hidden and self._before is not None:
            return _lower(self._before.used, seen.used)
        ours = _sum_known([seen.processes[pid] for pid in self._ours]) if seen.processes else 0
        if ours is None:
            return None if self._foreign else 0
        return max(0, seen.used - ours)

    def _foreign_utilization(self) -> float | None:
        if self._ours:
            return self._sum_shares(self._foreign) if self._foreign else 0.0
        if self._foreign_memory() == 0:  # nothing runs in no memory: the driver still counts what has just ended
            return 0.0
        if self._hidden:
            return None if self._before is None else _lower(self._before.utilization, self._seen.utilization)
        return self._seen.utilization

    def _sum_shares(self, pids: Sequence[int]) -> float | None:
        shares = self._seen.shares
        # A driver that counts clients' work as their server's does not tell whose it was.
        if shares is None or any(shares.get(server) for server in self._seen.servers):
            return None
        return min(100.0, sum(shares.get(pid, 0.0) for pid in pids))


def usage_of(resident: ResidentProcess, shares: Mapping[DeviceId, GpuShares]) -> ResidentUsage:
    """Bytes and percent on the device where each is highest: promises and budgets are per device. None if one does not answer."""
    here = [shares[device] for device in resident.devices if device in shares]
    if not here or len(here) < len(resident.devices):
        return ResidentUsage(None, None)
    spent = [share.spent_by(resident.attempt) for share in here]
    return ResidentUsage(
        _highest_known([share.memory_of(resident.attempt) for share in here]),
        _highest_known([share.utilization_of(resident.attempt) for share in here]),
        _sum_known([None if one is None else one.joules for one in spent]),
        _sum_known([None if one is None else one.idle for one in spent]),
    )


def _lower(one: N | None, other: N | None) -> N | None:
    return None if one is None or other is None else min(one, other)


def _highest_known(values: Sequence[N | None]) -> N | None:
    known = [value for value in values if value is not None]
    return max(known) if known and len(known) == len(values) else None


def _sum_known(values: Sequence[N | None]) -> N | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
