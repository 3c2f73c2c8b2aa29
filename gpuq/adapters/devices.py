"""What a device backend offers: the devices of a host, readings of them, and how a job is placed on them.

`nvml/backend.py` implements it for NVIDIA GPUs, `cpu/backend.py` for sets of CPU cores. A reading that cannot be taken is None. A
device whose driver fails is left out of `Snapshot.readings`; `read` never raises for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.device import Device, DeviceId, Reading


@dataclass(frozen=True, slots=True)
class ResidentProcess:
    """An attempt on this host: the root of its process tree (the shim) and its devices."""

    attempt: AttemptId
    root_pid: int
    devices: tuple[DeviceId, ...]


@dataclass(frozen=True, slots=True)
class ResidentUsage:
    """What one attempt uses of one device: bytes and percent, of several devices the highest value of each.

    `energy_joules` is the energy since the previous look, over all its devices; `idle_joules` is the part of it that the devices
    would have used anyway, None if unknown (see `nvml/energy.py`). `memory_is_estimate`: the exact value is unknown at this look
    and may be higher or lower.

    `foreign_load` is for how many seconds per second since the previous look other programs ran on its devices; noise can make
    it slightly negative. `held_back` is the part of the attempt's time in which it waited for a core, whoever ran there; on GPUs
    it is at most the foreign load, and has its value. Both are None where they are unknown.
    """

    memory_bytes: int | None
    utilization_pct: float | None
    energy_joules: float | None = None
    idle_joules: float | None = None
    memory_is_estimate: bool = False
    foreign_load: float | None = None
    held_back: float | None = None


@dataclass(frozen=True, slots=True)
class DriverFault:
    """An error of a device that its driver reported. `xid` is NVIDIA's number for the kind of error."""

    device: DeviceId
    xid: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The readings of all devices that answer, and the usage of every resident, at one moment."""

    readings: Mapping[DeviceId, Reading]
    usage: Mapping[AttemptId, ResidentUsage]


@dataclass(frozen=True, slots=True)
class Placement:
    """How a job is placed on devices: variables for its environment, cores to pin it to (None: no pinning), and the device files
    that it needs beyond those that every program has."""

    env: Mapping[str, str]
    cores: tuple[int, ...] | None
    nodes: tuple[str, ...] = ()


class Backend(Protocol):
    """A device backend. For one thread at a time."""

    def devices(self) -> tuple[Device, ...]:
        """The devices of this host, in a stable order."""
        ...

    def read(self, now: float, residents: Sequence[ResidentProcess]) -> Snapshot:
        """Take readings at Unix time `now`. Called about once a second; never raises for a device that fails."""
        ...

    def memory(self, resident: ResidentProcess, /) -> ResidentUsage | None:
        """Its memory alone, for looks between two calls of `read`; None where only `read` takes it, or the process is gone."""
        ...

    def faults(self) -> Sequence[DriverFault]:
        """The errors reported since the last call; empty where devices report none."""
        ...

    def placement(self, devices: Sequence[DeviceId]) -> Placement:
        """How to place a job on these devices. Raises `gpuq.errors.NotFound` for a device of another host."""
        ...

    def close(self) -> None:
        """Release the driver."""
        ...
