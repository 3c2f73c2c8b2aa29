"""Devices made of CPU cores: jobs are pinned to them, really contend for them, and are measured through /proc.

A device's utilisation is the busy share of its cores; a resident's is the CPU time of its process tree, reaped children
included. A resident's energy is that of the machine's processors times its share of all cores' busy time.

Memory. The devices together offer `cpu_memory_fraction` of the machine, or of the tightest cgroup limit above us. Other programs'
memory is charged to no device until it exceeds the rest of the machine; what exceeds it is foreign memory on every device. No
device shows more free memory than the machine has. Page cache that can be reclaimed counts as free.

Foreign load is the time for which the cores of a device ran anything but gpuq's jobs. It only costs a job something where the
job would have used the core itself, and the kernel counts that: the time in which a thread was ready to run and had no core. So
others took at most the smaller of the time for which they ran and the time for which the job waited; the latter includes
waiting for its own threads or a partner's. Time that a hypervisor gave to another machine counts as taken too.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import psutil

from gpuq.adapters.cpu.rapl import Rapl
from gpuq.adapters.cpu.trees import KERNEL_COUNTS_WAITING, Trees, TreeUsage
from gpuq.adapters.devices import DriverFault, Placement, ResidentProcess, ResidentUsage, Snapshot
from gpuq.adapters.process import read_proc
from gpuq.core.measuring.measurement import HELD_BACK_LIMIT
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.device import Device, DeviceId, HostId, Reading
from gpuq.errors import BadSettings, NotFound
from gpuq.settings import Settings

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_FOREIGN_MEAN_S = 20.0
# Below this foreign load, in cores, waiting is not measured. It is half of the limit that applies to means over looks.
_FOREIGN_FROM = HELD_BACK_LIMIT / 2
_CGROUPS = Path("/sys/fs/cgroup")
# What version 1 of cgroups gives as the limit of a group that has none is above this.
_UNLIMITED = 2**62


def open_backend(settings: Settings) -> CpuBackend:
    """The cores that this process may use, as devices. Raises BadSettings if there are too few for the settings."""
    usable, wanted, host = sorted(os.sched_getaffinity(0)), settings.devices, HostId(settings.worker.host)
    count, each = wanted.cpu_count, wanted.cpu_cores or len(usable) // wanted.cpu_count
    if each < 1 or each * count > len(usable):
        raise BadSettings(
            f"{count} CPU devices of {wanted.cpu_cores or 'at least 1'} cores do not fit the {len(usable)} cores this "
            "process may use.",
            fix="Change `cpu_count` or `cpu_cores` under [devices].",
        )
    total = machine_memory().total
    promised = int(total * wanted.cpu_memory_fraction)
    cores = {}
    for index in range(count):
        id_ = DeviceId(f"{host}/cpu{index}")
        mine = tuple(usable[index * each : (index + 1) * each])
        device = Device(id_, host, "cpu", f"cpu-{each}", promised // count, index=str(index), cores=mine)
        cores[device] = mine
    return CpuBackend(cores, total - promised)


@dataclass(frozen=True, slots=True)
class MachineMemory:
    """Bytes of the machine, or of the tightest cgroup above us: in total, and still available."""

    total: int
    available: int


class CoreTicks(NamedTuple):
    """How a core spent its time since boot, in clock ticks. `stolen`: a hypervisor ran other machines on it."""

    busy: int
    stolen: int
    total: int


@dataclass(frozen=True, slots=True)
class _Load:
    """What the cores of one device did between two looks, in percent; `stolen` is not part of `busy`.

    `foreign` is `busy` without gpuq's jobs: slightly negative where the two are measured at different moments, and None in the
    second in which a job starts or ends, when they cannot be separated.
    """

    busy: float
    stolen: float
    foreign: float | None


@dataclass(slots=True)
class _Look:
    """The counters of one look, from which the next takes differences. `ended`: the residents of which nothing is left."""

    at: float
    ticks: Mapping[int, CoreTicks]
    joules: float | None = None
    cpu_seconds: dict[AttemptId, float] = field(default_factory=dict)
    residents: dict[DeviceId, frozenset[AttemptId]] = field(default_factory=dict)
    foreign: dict[DeviceId, float | None] = field(default_factory=dict)
    ended: set[AttemptId] = field(default_factory=set)


class CpuBackend:
    """A `devices.Backend`. `unpromised`: bytes that other programs may use before their memory counts as foreign."""

    def __init__(
        self,
        cores: Mapping[Device, tuple[int, ...]],
        unpromised: int,
        clock: Callable[[], float] = time.monotonic,
        memory: Callable[[], MachineMemory] | None = None,
        energy: Callable[[], float | None] | None = None,
    ) -> None:
        self._devices = tuple(cores)
        self._cores = {device.id: share for device, share in cores.items()}
        self._unpromised = unpromised
        self._clock = clock
        self._memory = memory or machine_memory
        self._energy = energy or Rapl().spent
        self._last: _Look | None = None
        self._trees = Trees()

    def devices(self) -> tuple[Device, ...]:
        """The devices, in the order of their cores."""
        return self._devices

    def placement(self, devices: Sequence[DeviceId]) -> Placement:
        """The cores to pin to. GPUs are hidden. Thread counts are not set, because libraries follow the pinning."""
        for device in devices:
            if device not in self._cores:
                raise NotFound(f"There is no device {device} on this host.", fix="`gpuq gpus` lists the devices.")
        cores = sorted(core for device in devices for core in self._cores[device])
        return Placement({"CUDA_VISIBLE_DEVICES": ""}, tuple(cores))

    def read(self, now: float, residents: Sequence[ResidentProcess]) -> Snapshot:
        """Take readings. Utilisation is None at the first look, which has no earlier counters to compare with."""
        look = _Look(self._clock(), _core_ticks(), self._energy())
        usage = {resident.attempt: self._usage(resident, look) for resident in residents}
        here = {device: [r for r in residents if device in r.devices] for device in self._cores}
        used = {device: _memory_of(there, usage, look.ended) for device, there in here.items()}
        foreign_memory = self._foreign_memory(used)
        readings, loads = {}, {}
        for device, there in here.items():
            look.residents[device] = frozenset(resident.attempt for resident in there)
            load = loads[device] = self._load(device, look, usage)
            look.foreign[device] = self._smoothed_foreign(device, load, look)
            own = used[device]
            both = None if own is None else own + foreign_memory[device]
            busy = None if load is None else min(100.0, load.busy + load.stolen)
            readings[device] = Reading(now, both, busy, foreign_memory[device], look.foreign[device])
        for resident in residents:
            usage[resident.attempt] = self._with_foreign(resident, usage[resident.attempt], loads, look)
        self._trees.end_look()
        self._last = look
        return Snapshot(readings, usage)

    def memory(self, resident: ResidentProcess) -> ResidentUsage | None:
        """The memory of its tree, in some 0.1 ms."""
        tree = self._trees.read(resident.root_pid, self._clock())
        return None if tree is None else _with_memory(tree, resident)

    def faults(self) -> Sequence[DriverFault]:
        """CPU cores report no errors."""
        return ()

    def close(self) -> None:
        """Close the files of /proc that are kept open between looks."""
        self._trees.close()

    def _usage(self, resident: ResidentProcess, look: _Look) -> ResidentUsage:
        tree = self._trees.read(resident.root_pid, look.at)
        if tree is None:
            if not psutil.pid_exists(resident.root_pid):  # else it cannot be read
                look.ended.add(resident.attempt)
            return ResidentUsage(None, None)
        usage = _with_memory(tree, resident)
        if usage.memory_bytes is None:
            look.ended.add(resident.attempt)
        look.cpu_seconds[resident.attempt] = tree.cpu_seconds
        before = self._last.cpu_seconds.get(resident.attempt) if self._last else None
        cores = sum(len(self._cores.get(device, ())) for device in resident.devices)
        if self._last is None or before is None or look.at <= self._last.at or not cores:
            return usage
        # A tree's time can decrease: the time of a child that ends unreaped is lost.
        spent = max(0.0, look.cpu_seconds[resident.attempt] - before)
        busy = 100 * spent / ((look.at - self._last.at) * cores)
        joules = self._joules(spent, look)
        return ResidentUsage(usage.memory_bytes, busy, joules, memory_is_estimate=usage.memory_is_estimate)

    def _joules(self, spent: float, look: _Look) -> float | None:
        """The part of the processors' energy for `spent` seconds of one core, of all busy core seconds since the last look."""
        if look.joules is None or self._last is None:
            return None
        before = self._last.ticks
        ticks = sum(now.busy - before[core].busy for core, now in look.ticks.items() if core in before)
        # At least `spent`: ticks are counted in hundredths of a second, CPU time exactly.
        whole = max(ticks / _TICKS_PER_S, spent)
        return look.joules * spent / whole if whole > 0 else 0.0

    def _foreign_memory(self, used: Mapping[DeviceId, int | None]) -> dict[DeviceId, int]:
        """Bytes of foreign memory on each device: an even part, and at least so much that the available memory is not exceeded.

        What residents use beyond their own device's memory counts as foreign on the others.
        """
        memory = self._memory()
        own = {device.id: min(used[device.id] or 0, device.total_memory) for device in self._devices}
        others = memory.total - memory.available - sum(own.values())
        # Page cache is not in `total - available`, and memory within the part that was never offered to jobs costs them nothing.
        part = max(0, others - self._unpromised) // len(self._devices)
        return {d.id: max(part, d.total_memory - own[d.id] - memory.available) for d in self._devices}

    def _load(self, device: DeviceId, look: _Look, usage: Mapping[AttemptId, ResidentUsage]) -> _Load | None:
        """What the device's cores did since the last look; None at the first look and after a core went offline."""
        if self._last is None:
            return None
        busy = stolen = total = 0
        for core in self._cores[device]:
            if core not in look.ticks or core not in self._last.ticks:
                return None
            now, before = look.ticks[core], self._last.ticks[core]
            busy += now.busy - before.busy
            stolen += now.stolen - before.stolen
            total += now.total - before.total
        if total <= 0:
            return None
        busy_pct, stolen_pct = 100 * max(0, busy) / total, 100 * max(0, stolen) / total
        shares = [usage[attempt].utilization_pct for attempt in look.residents[device]]
        known = [share for share in shares if share is not None]
        separable = self._last.residents[device] == look.residents[device] and len(known) == len(shares)
        return _Load(busy_pct, stolen_pct, busy_pct - sum(known) if separable else None)

    def _smoothed_foreign(self, device: DeviceId, load: _Load | None, look: _Look) -> float | None:
        """Foreign utilisation as an exponential mean over 20 s, so that a command that runs for a moment blocks no start.

        While residents start or end, the previous value is kept.
        """
        if load is None or self._last is None:
            return None
        before = self._last.foreign[device]
        if load.foreign is None:
            here = look.residents[device]
            return before if self._last.residents[device] != here or not look.ended.isdisjoint(here) else None
        # The noise of one look is clipped at 0 here, where it only decides about admission; `_with_foreign` keeps it, so that
        # sums over many looks stay unbiased.
        now = max(0.0, load.foreign + load.stolen)
        if before is None:
            return now
        return before + (now - before) * (1 - math.exp((self._last.at - look.at) / _FOREIGN_MEAN_S))

    def _with_foreign(
        self, resident: ResidentProcess, usage: ResidentUsage, loads: Mapping[DeviceId, _Load | None], look: _Look
    ) -> ResidentUsage:
        """The usage with `foreign_load` and `held_back` of the resident's devices.

        A job whose threads take turns loses all of their waiting. One whose threads run side by side loses their mean waiting,
        or that of the thread that waited longest.
        """
        cores = {device: len(self._cores[device]) for device in resident.devices if device in self._cores}
        # Reading every thread's schedstat costs more than all the rest of a look, so it is read only under foreign load: the
        # recent mean or this look's own, so that a load that comes and goes is not missed.
        lately = sum((look.foreign[device] or 0.0) / 100 * n for device, n in cores.items())
        found = [(loads[device], n) for device, n in cores.items()]
        ran = [load.foreign / 100 * n for load, n in found if load is not None and load.foreign is not None]
        waited = None
        if KERNEL_COUNTS_WAITING and max(lately, sum(ran)) >= _FOREIGN_FROM:
            waited = self._trees.waited(resident.root_pid)
        else:
            self._trees.stop_waiting(resident.root_pid)
        if self._last is None or usage.utilization_pct is None or len(ran) < len(resident.devices):
            return usage
        stolen = max(load.stolen / max(load.busy + load.stolen, 1.0) for load, _ in found if load is not None)
        if waited is None:
            return _with_load(usage, sum(ran) + stolen, None)
        elapsed = look.at - self._last.at
        # `every` is the waiting of all threads, which run side by side in about `running + every` of them: their mean waiting is
        # the ratio. `worst` covers the job that waits in each step for its slowest thread. Stolen time is in no thread's count.
        every, worst = waited[0] / elapsed, waited[1] / elapsed
        running = usage.utilization_pct / 100 * sum(cores.values())
        held_back = max(worst, every / max(1.0, running + every)) + stolen
        return _with_load(usage, sum(ran) + stolen, min(1.0, held_back))


def _with_load(usage: ResidentUsage, foreign_load: float, held_back: float | None) -> ResidentUsage:
    # Not by `replace`, which takes three times as long: this is done for every resident at every look.
    of_resident = usage.memory_bytes, usage.utilization_pct, usage.energy_joules, usage.idle_joules
    return ResidentUsage(*of_resident, usage.memory_is_estimate, foreign_load, held_back)


def _with_memory(tree: TreeUsage, resident: ResidentProcess) -> ResidentUsage:
    """Each device of a job on several has an even part. A tree without memory is ending."""
    memory = tree.memory_bytes // len(resident.devices) or None
    return ResidentUsage(memory, None, memory_is_estimate=tree.memory_is_estimate)


def _memory_of(
    residents: Sequence[ResidentProcess], usage: Mapping[AttemptId, ResidentUsage], ended: AbstractSet[AttemptId]
) -> int | None:
    """The sum of the residents' bytes on one device, for those that have ended 0; None if one of the others is unknown."""
    parts = [usage[resident.attempt].memory_bytes for resident in residents if resident.attempt not in ended]
    known = [memory for memory in parts if memory is not None]
    return sum(known) if len(known) == len(parts) else None


# --- the machine ---------------------------------------------------------------------------------------------------


def _core_ticks() -> dict[int, CoreTicks]:
    """The ticks of each core, from /proc/stat: psutil's list has no core numbers and leaves offline cores out."""
    cores = {}
    for line in Path("/proc/stat").read_bytes().splitlines():
        name, *values = line.split()
        if name[:3] != b"cpu":
            break
        if name != b"cpu":
            ticks = [int(value) for value in values[:8]]
            idle, waiting_for_disk, stolen, total = ticks[3], ticks[4], ticks[7], sum(ticks)
            cores[int(name[3:])] = CoreTicks(total - idle - waiting_for_disk - stolen, stolen, total)
    return cores


def machine_memory() -> MachineMemory:
    """The memory that this process could have: the machine's, or less by a cgroup limit."""
    machine = psutil.virtual_memory()
    total, available = machine.total, machine.available
    for limit, used in _cgroup_memory():
        total = min(total, limit)
        available = min(available, max(0, limit - used))
    return MachineMemory(total, min(total, available))


class _Cgroup(NamedTuple):
    """The files of one memory cgroup, and the name of its reclaimable page cache in `stat`."""

    limit: str
    used: str
    stat: str
    cache: bytes


def _cgroup_memory() -> Iterator[tuple[int, int]]:
    """(limit, use) in bytes of each limited memory cgroup above us; reclaimable page cache is not counted as used."""
    for group in _cgroups(read_proc("/proc/self/cgroup").decode()):
        limit = read_proc(group.limit).strip()
        if not limit.isdigit() or int(limit) >= _UNLIMITED:
            continue
        used = read_proc(group.used).strip()
        if used.isdigit():
            cache = read_proc(group.stat).partition(group.cache)[2].split(None, 1)
            yield int(limit), max(0, int(used) - (int(cache[0]) if cache else 0))


@lru_cache(maxsize=1)
def _cgroups(memberships: str) -> tuple[_Cgroup, ...]:
    """The memory cgroups above a process with these lines in /proc/PID/cgroup."""
    found = []
    for line in memberships.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root, names = _CGROUPS, ("memory.max", "memory.current", b"inactive_file ")
        elif "memory" in controllers.split(","):
            root = _CGROUPS / "memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", b"total_inactive_file ")
        else:
            continue
        folder = root / path.lstrip("/")
        levels = [level for level in (folder, *folder.parents) if level.is_relative_to(root)]
        limit, used, cache = names
        found += [_Cgroup(f"{level}/{limit}", f"{level}/{used}", f"{level}/memory.stat", cache) for level in levels]
    return tuple(found)
