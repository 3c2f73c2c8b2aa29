"""What a job is placed on, and what was last read from it.

Arrives from a worker's report. A device is a GPU, a MIG slice or a set of CPU cores; the core does not care which.
A reading that could not be taken is `None`, never 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

DeviceId = NewType("DeviceId", str)
HostId = NewType("HostId", str)


@dataclass(frozen=True, slots=True)
class Device:
    """One place where attempts run. `type` is the product ("NVIDIA H200", "cpu-2"): forecasts never cross types.

    `sharing` is how those on it share it, "mps" or "time-slicing"; None if that is not known, or for CPU cores. What a pair
    costs never crosses ways of sharing.
    """

    id: DeviceId
    host: HostId
    backend: str
    type: str
    total_memory: int
    sharing: str | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """What one look at a device gave. Bytes and percent; `foreign_*` belongs to processes gpuq did not start."""

    at: float
    used_memory: int | None
    utilization_pct: float | None
    foreign_memory: int | None
    foreign_utilization_pct: float | None = None


@dataclass(frozen=True, slots=True)
class Host:
    """A machine with devices and one worker service, as last heard of."""

    id: HostId
    boot_id: str
    last_seen: float
