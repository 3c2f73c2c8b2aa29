"""The simulated devices: which attempts run where, how fast each progresses beside the others, and how much memory each holds.

A pure model of the world. It and the core do not see each other: the simulator translates between the two.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from gpuq.core.state.device import Device, DeviceId
from gpuq.sim.energy import Energy
from gpuq.sim.memory import STARTING_SHARE, peak_memory
from gpuq.sim.record import SimulatedAttempt, Stretch
from gpuq.sim.world import World


@dataclass(slots=True, eq=False)
class RunningAttempt:
    """An attempt on its devices: `left_s` seconds of work are left at time `since`, when its pace was last set.

    `pace` is the seconds that a second of work takes: the `slowdown` beside its partners divided by its speed alone. `turn`
    counts the changes of pace; an end that was scheduled for an earlier turn is ignored. `held_bytes` and `peak_bytes` are per
    device, None in a world without memory. A `paused` one makes no progress, its pace is infinite.
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
    paused: bool = False

    @property
    def kind(self) -> str:
        """The job's kind, as the trace names it."""
        return self.run.arrival.kind


class SimulatedCluster:
    """All devices of a world, with the attempts on each in `on`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.energy = Energy(world)
        self.devices: dict[DeviceId, Device] = {device.id: device for device in world.devices}
        self.on: dict[DeviceId, list[RunningAttempt]] = {device.id: [] for device in world.devices}
        self._slowdowns: dict[tuple[str, tuple[str, ...]], float] = {}
        self.has_memory = any(workload.memory_bytes is not None for workload in world.workloads.values())
        self._can_run_out = self.has_memory or any(map(math.isinf, world.pairs.values()))

    def start(self, run: SimulatedAttempt, left_s: float, now: float) -> RunningAttempt:
        """Put the attempt on its devices, with `left_s` seconds of work to do."""
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
        """Take the attempt off its devices. `reconsider` those devices afterwards: its partners are faster now."""
        for device in resident.run.devices:
            self.on[device].remove(resident)

    def settle(self, resident: RunningAttempt, now: float) -> None:
        """Account for the time, and the work done, since the attempt's last change of pace."""
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

    def losses(self, resident: RunningAttempt, now: float) -> tuple[float, float]:
        """(seconds lost to partners, seconds paused) of the attempt up to now."""
        self.settle(resident, now)
        slowed = sum(s.seconds * (1 - 1 / s.slowdown) for s in resident.run.stretches if math.isfinite(s.slowdown))
        return slowed, sum(s.seconds for s in resident.run.stretches if math.isinf(s.slowdown))

    def reconsider(self, devices: Iterable[DeviceId], now: float) -> list[RunningAttempt]:
        """Recompute the pace of every attempt on these devices. Returns those whose pace or partners changed."""
        found = dict.fromkeys(resident for device in devices for resident in self.on[device])
        changed = [resident for resident in found if self._repace(resident, now)]
        if self.energy.known:
            touched = {device: None for resident in changed for device in resident.run.devices}
            for device in {**dict.fromkeys(devices), **touched}:
                self.energy.set(self.devices[device], [(r.kind, r.slowdown) for r in self.on[device]], now)
        return changed

    def starting_s(self, resident: RunningAttempt) -> float | None:
        """Seconds of loading until the attempt needs all of its memory; None in a world where none can run out of it."""
        return min(self.world.starting_s, resident.left_s / 2) * resident.pace if self._can_run_out else None

    def grow(self, resident: RunningAttempt) -> bool:
        """Raise the attempt's memory to its peak. False, and nothing changed, where a device has no room for it."""
        resident.grown = True
        before, resident.held_bytes = resident.held_bytes, resident.peak_bytes
        if self.has_room(resident):
            resident.run.memory_bytes = resident.peak_bytes
            return True
        resident.held_bytes = before
        return False

    def has_room(self, resident: RunningAttempt) -> bool:
        """Whether its devices hold no more than their memory, and it has no partner that it cannot run beside."""
        for device in resident.run.devices:
            if self.used_memory(device) > self.devices[device].total_memory:
                return False
            for other in self.on[device]:
                if other is not resident and resident.grown and other.grown:
                    one, two = resident.kind, other.kind
                    if math.isinf(max(self.slowdown(one, (two,)), self.slowdown(two, (one,)))):
                        return False
        return True

    def used_memory(self, device: DeviceId) -> int:
        """Bytes in use on the device now, of all attempts."""
        return sum(resident.held_bytes or 0 for resident in self.on[device])

    def slowdown(self, kind: str, beside: tuple[str, ...]) -> float:
        """`World.slowdown`, cached. `beside` must be sorted."""
        found = self._slowdowns.get((kind, beside))
        if found is None:
            found = self._slowdowns[kind, beside] = self.world.slowdown(kind, beside)
        return found

    def _repace(self, resident: RunningAttempt, now: float) -> bool:
        """Set the attempt's pace: a gang is as slow as on its slowest device. True if its end must be scheduled again."""
        slowest = 0.0
        beside: tuple[str, ...] = ()
        for device in resident.run.devices:
            others = [other for other in self.on[device] if not other.paused]
            kinds = tuple(sorted([other.kind for other in others if other is not resident]))
            slowdown = self._finite_slowdown(resident.kind, kinds) if kinds else 1.0
            if slowdown > slowest:
                slowest, beside = slowdown, kinds
        if resident.paused:
            slowest, beside = math.inf, ()
        pace = slowest / resident.alone_speed
        if resident.turn and pace == resident.pace and beside == resident.beside:
            return False
        self.settle(resident, now)
        resident.pace, resident.slowdown, resident.beside = pace, slowest, beside
        resident.turn += 1
        return True

    def _finite_slowdown(self, kind: str, beside: tuple[str, ...]) -> float:
        """The slowdown without partners that it cannot run beside: one of those ends as soon as both have loaded."""
        found = self.slowdown(kind, beside)
        if math.isinf(found):
            found = self.slowdown(kind, tuple(k for k in beside if not math.isinf(self.slowdown(kind, (k,)))))
        return found
