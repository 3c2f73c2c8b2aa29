"""The world in motion: who really runs where, beside whom, how fast, and with how much memory.

Arrives: attempts that start and end. Leaves: how far each has come, whose speed changed, and who finds no memory. Knows
nothing of the core, and the core nothing of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from gpuq.core.state.device import Device, DeviceId
from gpuq.sim.energy import Energy
from gpuq.sim.memory import STARTING_S, STARTING_SHARE, peak_memory
from gpuq.sim.record import SimulatedAttempt, Stretch
from gpuq.sim.world import World


@dataclass(slots=True, eq=False)
class RunningAttempt:
    """An attempt that runs: how much work is left, and since when it has had its present partners.

    `pace` is how many seconds a second of work takes: its `slowdown` beside its partners, over its speed alone. `turn` counts the
    changes of pace: an end foreseen before the last one is void.
    """

    run: SimulatedAttempt
    left_s: float
    since: float
    alone_speed: float
    pace: float = 1.0
    slowdown: float = 1.0
    beside: tuple[str, ...] = ()
    turn: int = 0
    held_bytes: int | None = None
    peak_bytes: int | None = None
    grown: bool = False

    @property
    def kind(self) -> str:
        """The trace's kind."""
        return self.run.arrival.kind


class SimulatedCluster:
    """See the module's own words."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.energy = Energy(world)
        self.devices: dict[DeviceId, Device] = {device.id: device for device in world.devices}
        self.on: dict[DeviceId, list[RunningAttempt]] = {device.id: [] for device in world.devices}
        self._slowdowns: dict[tuple[str, tuple[str, ...]], float] = {}
        self.has_memory = any(workload.memory_bytes is not None for workload in world.workloads.values())
        self._can_run_out = self.has_memory or any(map(math.isinf, world.pairs.values()))

    def start(self, run: SimulatedAttempt, left_s: float, now: float) -> RunningAttempt:
        """It runs from now on."""
        arrival = run.arrival
        speed = self.world.speed(arrival.kind, run.device_type, len(run.devices), arrival.devices)
        resident = RunningAttempt(run, left_s, now, speed)
        resident.peak_bytes = peak_memory(self.world, arrival)
        if resident.peak_bytes is not None:
            resident.held_bytes = run.memory_bytes = round(resident.peak_bytes * STARTING_SHARE)
        for device in run.devices:
            self.on[device].append(resident)
        return resident

    def end(self, resident: RunningAttempt) -> None:
        """It is gone; whoever was beside it is to be reconsidered."""
        for device in resident.run.devices:
            self.on[device].remove(resident)

    def settle(self, resident: RunningAttempt, now: float) -> None:
        """Account for the time since the last change."""
        seconds, resident.since = now - resident.since, now
        if seconds <= 0:
            return
        work = min(resident.left_s, seconds / resident.pace)
        resident.left_s -= work
        stretches = resident.run.stretches
        if stretches and stretches[-1].beside == resident.beside and stretches[-1].slowdown == resident.slowdown:
            stretches[-1].seconds += seconds
            stretches[-1].work_s += work
        else:
            stretches.append(Stretch(resident.beside, seconds, work, resident.slowdown))

    def reconsider(self, devices: Iterable[DeviceId], now: float) -> list[RunningAttempt]:
        """Who was on these devices all the time, or came, goes on at another pace from now on; those whose pace is new."""
        found = dict.fromkeys(resident for device in devices for resident in self.on[device])
        changed = [resident for resident in found if self._repace(resident, now)]
        if self.energy.known:
            touched = {device: None for resident in changed for device in resident.run.devices}
            for device in {**dict.fromkeys(devices), **touched}:
                self.energy.set(self.devices[device], [(r.kind, r.slowdown) for r in self.on[device]], now)
        return changed

    def starting_s(self, resident: RunningAttempt) -> float | None:
        """How long it loads until it needs all of its memory; None where nobody can run out of it."""
        return min(STARTING_S, resident.left_s / 2) * resident.pace if self._can_run_out else None

    def grow(self, resident: RunningAttempt) -> bool:
        """It needs its peak from now on. Whether there is room on each of its devices."""
        resident.grown = True
        before, resident.held_bytes = resident.held_bytes, resident.peak_bytes
        if self.has_room(resident):
            resident.run.memory_bytes = resident.peak_bytes
            return True
        resident.held_bytes = before
        return False

    def has_room(self, resident: RunningAttempt) -> bool:
        """Whether what is held on its devices is there, and nobody is beside it whom it cannot be with."""
        return all(
            sum(other.held_bytes or 0 for other in self.on[device]) <= self.devices[device].total_memory
            and not any(self._clash(resident, other) for other in self.on[device])
            for device in resident.run.devices
        )

    def used_memory(self, device: DeviceId) -> int:
        """Bytes in use on the device now."""
        return sum(resident.held_bytes or 0 for resident in self.on[device])

    def slowdown(self, kind: str, beside: tuple[str, ...]) -> float:
        """The world's, remembered. `beside` is sorted."""
        found = self._slowdowns.get((kind, beside))
        if found is None:
            found = self._slowdowns[kind, beside] = self.world.slowdown(kind, beside)
        return found

    def _clash(self, resident: RunningAttempt, other: RunningAttempt) -> bool:
        return (
            other is not resident
            and resident.grown
            and other.grown
            and math.isinf(
                max(self.slowdown(resident.kind, (other.kind,)), self.slowdown(other.kind, (resident.kind,)))
            )
        )

    def _repace(self, resident: RunningAttempt, now: float) -> bool:
        """A gang is as slow as on its slowest device. Whether its end is to be foreseen anew."""
        slowest = 0.0
        beside: tuple[str, ...] = ()
        for device in resident.run.devices:
            others = self.on[device]
            kinds = tuple(sorted([other.kind for other in others if other is not resident])) if len(others) > 1 else ()
            slowdown = self._finite_slowdown(resident.kind, kinds) if kinds else 1.0
            if slowdown > slowest:
                slowest, beside = slowdown, kinds
        pace = slowest / resident.alone_speed
        if resident.turn and pace == resident.pace and beside == resident.beside:
            return False
        self.settle(resident, now)
        resident.pace, resident.slowdown, resident.beside = pace, slowest, beside
        resident.turn += 1
        return True

    def _finite_slowdown(self, kind: str, beside: tuple[str, ...]) -> float:
        """Those who cannot be together do not slow each other: one of them ends as soon as both have loaded."""
        found = self.slowdown(kind, beside)
        if math.isinf(found):
            found = self.slowdown(kind, tuple(k for k in beside if not math.isinf(self.slowdown(kind, (k,)))))
        return found
