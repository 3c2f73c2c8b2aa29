"""What a device backend answers: which devices, who uses how much of them now, and how a job is put on them.

`nvml.py` answers for NVIDIA GPUs, `cpu.py` for sets of CPU cores. A reading that cannot be taken is None; a backend whose
driver fails leaves the device out of `readings` and never raises from `read`.
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
    """What one attempt uses now of one device, in bytes and percent: of its devices the highest, where they are told apart.

    Energy is that of the time since the look before, over all its devices; `idle_joules` is the part of it that they would have
    taken anyway, None where that is not known. See `energy.py`.

    `memory_is_estimate`: the exact figure is not known at this look, and may be higher or lower. `foreign_load` is for how many
    seconds per second since the look before processes that gpuq did not start ran on its devices, which noise can bring a little
    below zero; `held_back` is the part of the attempt's time for which it waited for a core, whoever had it. Both are None where
    they cannot be told, and on GPUs, where the readings say it.
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
    """The driver reported this error of a device. `xid` is NVIDIA's number for it."""

    device: DeviceId
    xid: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One look at everything."""

    readings: Mapping[DeviceId, Reading]
    usage: Mapping[AttemptId, ResidentUsage]


@dataclass(frozen=True, slots=True)
class Placement:
    """How a job is put on devices: variables for its environment, and cores to pin it to (None: no pinning)."""

    env: Mapping[str, str]
    cores: tuple[int, ...] | None


class Backend(Protocol):
    """Every device backend, and its stand-in in tests."""

    def devices(self) -> tuple[Device, ...]:
        """The devices of this host, in a stable order."""
        ...

    def read(self, now: float, residents: Sequence[ResidentProcess]) -> Snapshot:
        """One look; called about once a second."""
        ...

    def faults(self) -> Sequence[DriverFault]:
        """What was reported since this was last asked; () where devices report nothing."""
        ...

    def placement(self, devices: Sequence[DeviceId]) -> Placement:
        """How to put a job on these devices. Raises `gpuq.errors.NotFound` for a device that is not here."""
        ...

    def close(self) -> None:
        """Let go of the driver."""
        ...
