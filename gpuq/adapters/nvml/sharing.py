"""One GPU's observation, divided among our attempts and the others: memory, utilisation and energy of each.

An unknown part makes a sum unknown (None).

Not every driver shows the processes of our jobs. Under WSL 2 and on some vGPUs it lists none, and in a container with its own
pid namespace it lists the host's pids or none. There, an attempt that is alone on the GPU has what the GPU shows above the
baseline before its start, and attempts that share the GPU have None. Where processes of others are listed and none of ours, an
attempt has 0 if all of them were there before it. If one came later, the attempt has None, because that process may be its own,
in a container that it started.

The driver may count the memory of a process for a moment after its end. So for SETTLE_S after one of our attempts has left, or
until the GPU shows no more than before that one's start, what no process accounts for is measured of no job and is not foreign,
and the baseline does not rise.
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

SETTLE_S = 5.0
"""A driver frees a GPU's memory in less, and a training script imports its framework for about as long before it allocates."""


@dataclass(frozen=True, slots=True)
class GpuObservation:
    """The answers of one GPU at one look. `processes` maps pids to bytes (None: unknown), `shares` to percent. `servers` are
    the pids of MPS servers, which work for their clients and belong to no attempt."""

    used: int
    utilization: float | None
    processes: Mapping[int, int | None] | None
    shares: Mapping[int, float] | None
    servers: frozenset[int]
    spent: EnergyPart | None
    vitals: Vitals
    unwell: str | None


@dataclass(frozen=True, slots=True)
class Baseline:
    """What a GPU showed before our attempts started: bytes, percent, and the readable processes of others."""

    used: int
    utilization: float | None
    others: frozenset[int]


class GpuShares:
    """One GPU's observation, divided between our attempts and the others."""

    def __init__(
        self,
        seen: GpuObservation,
        found: Mapping[int, AttemptId | None],
        residents: Sequence[AttemptId],
        before: Baseline | None,
        left_s: float | None = None,
    ) -> None:
        """`found`: the attempt of each readable process, None for one that is not ours. `residents`: our attempts on this GPU.
        `before`: the baseline before they started, None if unknown. `left_s`: how long ago another one left; None if none did."""
        self._seen, self._residents, self._before = seen, residents, before
        pids = seen.processes or {}
        self._ours = {pid: owner for pid in pids if (owner := found.get(pid)) is not None}
        self._others = frozenset(pid for pid in pids if pid in found and found[pid] is None) - seen.servers
        self._hidden = bool(residents) and not self._ours and not self._others
        is_above = before is None or seen.used > before.used
        self.settles = left_s is not None and 0 <= left_s < SETTLE_S and is_above
        """Whether an attempt that has left may still be counted here."""
        # A process that cannot be read belongs to another container or user; or it has ended, with that attempt.
        foreign = [pid for pid in pids if pid not in self._ours and pid not in seen.servers]
        self._foreign = [] if self._hidden else list(self._others) if self.settles else foreign
        self.utilization: dict[AttemptId | None, float | None] = {one: self._utilization_of(one) for one in residents}
        """Percent of each of our attempts on this GPU, None if unknown. The others, if any, are one party with the key None."""
        if self._foreign:
            self.utilization[None] = self._foreign_utilization()
        self.spent = {} if seen.spent is None else share_out(seen.spent, self.utilization)
        """Each party's part of the energy, if it is known."""

    @property
    def baseline(self) -> Baseline | None:
        """The baseline for the next look.

        While our attempts' processes are not shown, or one that has left may still be counted, it only falls: an attempt that
        starts meanwhile must not be measured against another's load.
        """
        seen, before = self._seen, self._before
        if not self._residents and not self.settles:
            return Baseline(seen.used, seen.utilization, self._others)
        if before is None or (self._residents and not self._hidden):
            return before
        others = before.others if self._residents else self._others
        return Baseline(min(before.used, seen.used), _lower(before.utilization, seen.utilization), others)

    @property
    def shows_ours(self) -> bool | None:
        """Whether the driver shows our attempts' processes; None while they use no memory that it could show."""
        if self._ours:
            return True
        before = self._before
        return False if self._hidden and before is not None and self._seen.used > before.used else None

    def reading(self, now: float, processes_visible: bool | None) -> Reading:
        """The reading of the whole GPU. `processes_visible` is concluded from several looks, so the caller passes it."""
        seen = self._seen
        foreign = self._foreign_memory(), self._foreign_utilization()
        return Reading(now, seen.used, seen.utilization, *foreign, seen.unwell, seen.vitals, processes_visible)

    def memory_of(self, attempt: AttemptId) -> int | None:
        """Bytes of one attempt on this GPU; 0 before it has used the GPU, None if unknown."""
        processes = self._seen.processes
        if processes is None or not self._ours:
            return self._beyond(self._seen.used, None if self._before is None else self._before.used)
        return _sum_known([processes[pid] for pid, owner in self._ours.items() if owner == attempt])

    def _utilization_of(self, attempt: AttemptId) -> float | None:
        if not self._ours:
            return self._beyond(self._seen.utilization, None if self._before is None else self._before.utilization)
        if attempt not in self._ours.values():
            return 0.0
        # Alone on the GPU: its own counter is exact, the driver's samples per process are not.
        if not self._foreign and set(self._ours.values()) == {attempt}:
            return self._seen.utilization
        return self._sum_shares([pid for pid, owner in self._ours.items() if owner == attempt])

    def _beyond(self, now: N | None, before: N | None) -> N | None:
        """An attempt's part while no process of ours is shown: what the GPU shows now above what it showed before."""
        if now is None or before is None or self._before is None:
            return None
        # The driver lists processes but none of ours, so ours have nothing here, unless one that came later is ours after all.
        if self._others:
            return 0 if self._others <= self._before.others else None
        return max(now - before, 0) if len(self._residents) == 1 and not self.settles else None

    def _foreign_memory(self) -> int | None:
        """Bytes in use that are not ours; small remains of the driver count too. None if unknown."""
        seen = self._seen
        if self._hidden and self._before is not None:
            return min(self._before.used, seen.used)
        # An unknown size of one of ours leaves the rest unknown, but without foreign processes there is no rest.
        ours = _sum_known([seen.processes[pid] for pid in self._ours]) if seen.processes else 0
        if ours is None:
            return None if self._foreign else 0
        rest = max(0, seen.used - ours)
        listed = _sum_known([(seen.processes or {})[pid] for pid in self._foreign])
        if not self.settles or listed is None:
            return rest
        return min(rest, max(listed, 0 if self._before is None else self._before.used))

    def _foreign_utilization(self) -> float | None:
        if self._ours or (self.settles and self._foreign):
            return self._sum_shares(self._foreign) if self._foreign else 0.0
        if self._foreign_memory() == 0:  # every process has memory, so the driver still counts one that has just ended
            return 0.0
        if self._hidden or self.settles:
            return None if self._before is None else _lower(self._before.utilization, self._seen.utilization)
        return self._seen.utilization

    def _sum_shares(self, pids: Sequence[int]) -> float | None:
        shares = self._seen.shares
        # A driver that attributes clients' work to the MPS server does not say whose it was.
        if shares is None or any(shares.get(server) for server in self._seen.servers):
            return None
        return min(100.0, sum(shares.get(pid, 0.0) for pid in pids))


def usage_of(
    resident: ResidentProcess, shares: Mapping[DeviceId, GpuShares], readings: Mapping[DeviceId, Reading]
) -> ResidentUsage:
    """A resident's usage over its devices: of bytes and percent the highest, because promises and budgets are per device.

    Bytes and percent are None if one of its devices does not answer; energies are sums. `shares` and `readings` have the same
    devices, those that answer.
    """
    here = [shares[device] for device in resident.devices if device in shares]
    foreign = _foreign_load([readings[device] for device in resident.devices if device in readings])
    if not here or len(here) < len(resident.devices):
        return ResidentUsage(None, None, foreign_load=foreign, held_back=foreign)
    spent = [share.spent.get(resident.attempt) for share in here]
    return ResidentUsage(
        _highest_known([share.memory_of(resident.attempt) for share in here]),
        _highest_known([share.utilization[resident.attempt] for share in here]),
        _sum_known([None if one is None else one.joules for one in spent]),
        _sum_known([None if one is None else one.idle for one in spent]),
        foreign_load=foreign,
        held_back=foreign,
    )


def _foreign_load(readings: Sequence[Reading]) -> float | None:
    """For how many seconds per second others ran on the worst of an attempt's GPUs, from 0 to 1; None if none shows processes.

    On a GPU processes take turns or get a part of it each, so the attempt lost at most what the others used. If there are others
    and their use is unknown, that may be everything.
    """
    used = [
        100.0
        if reading.foreign_utilization_pct is None and reading.processes_visible
        else reading.foreign_utilization_pct
        for reading in readings
    ]
    most = max((percent for percent in used if percent is not None), default=None)
    return None if most is None else min(1.0, most / 100)


def _lower(one: N | None, other: N | None) -> N | None:
    return None if one is None or other is None else min(one, other)


def _highest_known(values: Sequence[N | None]) -> N | None:
    known = [value for value in values if value is not None]
    return max(known) if known and len(known) == len(values) else None


def _sum_known(values: Sequence[N | None]) -> N | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
