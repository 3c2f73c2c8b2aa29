"""A world: the devices of a simulation, what the jobs of each kind need, and how much pairs of them slow each other.

Only the simulator sees it; the core has forecasts. A slowdown is time together / time alone,
1.0 is none. Where memory was not measured it is None, and no job runs out of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from gpuq.core.state.device import Device, DeviceId, HostId


@dataclass(frozen=True, slots=True)
class Workload:
    """What jobs of some kinds need when alone: percent of one device, bytes on each device.

    `speeds`: speed by device type, relative to the type that the trace's durations are of; 1 where a type is absent. `powers`:
    watts that one device of a type draws under it. `speedups`: speed by number of devices, relative to one device; with a
    number that is absent the job is as fast as with the number that it asks for.
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
    """The devices and workloads of a simulation.

    `workload_of`: the workload of each kind of the trace. `pairs[a, b]`: the slowdown of workload `a` beside `b`, infinite for
    two that do not fit on one device. `idle_powers`: watts that one device of a type draws without a job. `restart_s` is lost
    at each start of a job after its first, for loading what it had saved. A job loads for `starting_s` before it needs all of
    its memory.
    """

    name: str
    devices: tuple[Device, ...]
    workloads: Mapping[str, Workload]
    workload_of: Mapping[str, str]
    pairs: Mapping[tuple[str, str], float]
    idle_powers: Mapping[str, float] = field(default_factory=dict)
    restart_s: float = 0.0
    starting_s: float = 60.0
    notes: tuple[str, ...] = ()

    @cached_property
    def largest_memory(self) -> int:
        """Bytes of the largest device."""
        return max(device.total_memory for device in self.devices)

    def workload(self, kind: str) -> Workload:
        """The workload of this kind's jobs."""
        return self.workloads[self.workload_of[kind]]

    def slowdown(self, kind: str, beside: Sequence[str]) -> float:
        """The slowdown of a job of `kind` beside these kinds, all on one device: the sum of what each partner alone adds."""
        own = self.workload_of[kind]
        return 1.0 + sum(self.pairs[own, self.workload_of[other]] - 1.0 for other in beside)

    def speed(self, kind: str, device_type: str, count: int, asked: int) -> float:
        """Seconds of work per second, alone on `count` devices; the trace's duration is for `asked` devices."""
        workload = self.workload(kind)
        usual = workload.speedups.get(asked)
        gang = workload.speedups.get(count, usual) if usual else None
        return workload.speeds.get(device_type, 1.0) * (gang / usual if gang and usual else 1.0)


def machines(
    count: int, device_type: str, total_memory: int, sharing: str | None, *, per_host: int = 8
) -> tuple[Device, ...]:
    """`count` equal devices on hosts of `per_host`; the last host has what is left. Memory in bytes."""
    return tuple(
        Device(
            DeviceId(f"host{number // per_host + 1}/{number % per_host}"), HostId(f"host{number // per_host + 1}"),
            "sim", device_type, total_memory, sharing,
        )
        for number in range(count)
    )  # fmt: skip
