"""The truth that the core never sees: devices, what each kind of job really needs, and what pairs really cost each other.

A slowdown is time together / time alone, of the first beside the second; 1.0 is none. Memory that no measurement gives is
None, and then nobody runs out of it in this world.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpuq.core.device import Device


@dataclass(frozen=True, slots=True)
class Workload:
    """What a job of some kinds is made of, as measured alone. Percent of one device, bytes on each device, watts.

    `speedups`: how many times faster it is on so many devices; absent counts as linear up to what a job asks for.
    """

    name: str
    model: str
    batch_size: float | None
    utilization_pct: float
    memory_bytes: int | None = None
    power_w: float | None = None
    family: str | None = None
    speedups: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class World:
    """`workload_of` names the workload of each kind of the trace; `pairs` holds directed slowdowns by workload names."""

    name: str
    devices: tuple[Device, ...]
    workloads: Mapping[str, Workload]
    workload_of: Mapping[str, str]
    pairs: Mapping[tuple[str, str], float]
    notes: tuple[str, ...] = ()

    def workload(self, kind: str) -> Workload:
        """What jobs of this kind are made of."""
        return self.workloads[self.workload_of[kind]]

    def slowdown(self, kind: str, beside: Sequence[str]) -> float:
        """The slowdown of a job beside these, all on one device; of several partners each adds its own part."""
        own = self.workload_of[kind]
        return 1.0 + sum(self.pairs[own, self.workload_of[other]] - 1.0 for other in beside)
