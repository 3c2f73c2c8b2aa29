"""The truth that the core never sees: devices, what each kind of job really needs, and what pairs really cost each other.

A slowdown is time together / time alone, of the first beside the second; 1.0 is none. Memory that no measurement gives is
None, and then nobody runs out of it in this world.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from gpuq.core.state.device import Device


@dataclass(frozen=True, slots=True)
class Workload:
    """What a job of some kinds is made of, as measured alone. Percent of one device, bytes on each device.

    `speeds`: how fast it is on a type of device, against the one that a trace's durations speak of; absent is 1. `powers`: what
    one device of a type draws under it, in watts. `speedups`: how many times faster it is on so many devices than on one; where a
    count is absent, it is as fast as on as many as the job asks for.
    """

    name: str
    model: str
    batch_size: float | None
    utilization_pct: float
    memory_bytes: int | None = None
    family: str | None = None
    speeds: Mapping[str, float] = field(default_factory=dict)
    powers: Mapping[str, float] = field(default_factory=dict)
    speedups: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class World:
    """`workload_of` names the workload of each kind of the trace; `pairs` holds directed slowdowns by workload names.

    `idle_powers` is what one device of a type draws with nobody on it, in watts. `restart_s` is lost at each start of a job after
    its first: loading what it saved, and what it did since.
    """

    name: str
    devices: tuple[Device, ...]
    workloads: Mapping[str, Workload]
    workload_of: Mapping[str, str]
    pairs: Mapping[tuple[str, str], float]
    idle_powers: Mapping[str, float] = field(default_factory=dict)
    restart_s: float = 0.0
    notes: tuple[str, ...] = ()

    @cached_property
    def largest_memory(self) -> int:
        """Bytes of the largest device."""
        return max(device.total_memory for device in self.devices)

    def workload(self, kind: str) -> Workload:
        """What jobs of this kind are made of."""
        return self.workloads[self.workload_of[kind]]

    def slowdown(self, kind: str, beside: Sequence[str]) -> float:
        """The slowdown of a job beside these, all on one device; of several partners each adds its own part."""
        own = self.workload_of[kind]
        return 1.0 + sum(self.pairs[own, self.workload_of[other]] - 1.0 for other in beside)

    def speed(self, kind: str, device_type: str, count: int, asked: int) -> float:
        """Work-seconds per second of a job alone on `count` devices, against the `asked` that its duration speaks of."""
        workload = self.workload(kind)
        usual = workload.speedups.get(asked)
        gang = workload.speedups.get(count, usual) if usual else None
        return workload.speeds.get(device_type, 1.0) * (gang / usual if gang and usual else 1.0)
