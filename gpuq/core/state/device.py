"""Hosts and devices, and the last readings of devices, as workers report them.

A device is a GPU, a MIG slice or a set of CPU cores. The core treats them alike, but for how much memory other programs may use
when the first run of a kind starts. A reading that could not be taken is `None`, never 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

DeviceId = NewType("DeviceId", str)
HostId = NewType("HostId", str)


@dataclass(frozen=True, slots=True)
class Device:
    """One place where attempts run. `type` is the product ("NVIDIA H200", "cpu-2"): forecasts never cross types.

    `index` is its number on its host, as `nvidia-smi` counts: "3", or "3:1" for the second MIG slice of GPU 3. None where the
    worker that reported it was older than this field. It may change when the machine restarts; `id` does not.

    `sharing` is how jobs share it, "mps" or "time-slicing", or "exclusive" where the driver lets one process at a time use it;
    None if that is not known, or for CPU cores. The costs of pairs never cross ways of sharing. `features` are words that its
    host's settings give to all its devices, for `--constraint`.
    `until_at`: when its host has to give it back (Unix seconds), None where it need not. It is not in the record: no job starts
    on a device before its host has reported it again. `cores`: the numbers of the CPU cores that it is made of, also not in the
    record; () for a GPU.
    """

    id: DeviceId
    host: HostId
    backend: str
    type: str
    total_memory: int
    sharing: str | None = None
    index: str | None = None
    features: tuple[str, ...] = ()
    until_at: float | None = None
    cores: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Vitals:
    """Further readings of a device; None for what it does not report. No decision depends on them.

    `energy_joules` counts since the driver was loaded. `throttling` names the reasons for which the clocks are lowered now, ()
    for none. `xids` are the driver's error numbers with how often each came since the worker service began.
    """

    power_watts: float | None = None
    energy_joules: float | None = None
    temperature_c: float | None = None
    sm_activity_pct: float | None = None
    memory_bandwidth_pct: float | None = None
    throttling: tuple[str, ...] | None = None
    xids: tuple[tuple[int, int], ...] | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading of a device. Bytes and percent; `foreign_*` belongs to processes gpuq did not start.

    `unwell` says in words why the device is given no new jobs for now, None for one that is well. `processes_visible`: whether
    the driver shows the processes of our jobs there, None before any job could be shown. Where it does not, the figures of a job
    that is alone are the device's beyond the level before its start, and those of jobs that share it are None.
    """

    at: float
    used_memory: int | None
    utilization_pct: float | None
    foreign_memory: int | None
    foreign_utilization_pct: float | None = None
    unwell: str | None = None
    vitals: Vitals | None = None
    processes_visible: bool | None = None


@dataclass(frozen=True, slots=True)
class NoStarts:
    """Why a host starts no job for now: since when (Unix seconds), and when it tries again, None for once the cause is over."""

    why: str
    since_at: float
    again_at: float | None = None


@dataclass(frozen=True, slots=True)
class Host:
    """A machine with devices and one worker service, as last heard of. `instance` is that of the worker service; None where it
    is older than this field. `address`: where other hosts reach it, None for its name. `no_starts`: None where jobs start.
    `unanswered`: it was given orders to start jobs and has carried out none since then, though it reports."""

    id: HostId
    boot_id: str
    last_seen: float
    instance: str | None = None
    address: str | None = None
    no_starts: NoStarts | None = None
    unanswered: NoStarts | None = None
