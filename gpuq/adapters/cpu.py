"""Devices made of CPU cores: jobs are pinned to them, really contend, and are measured through /proc.

Arrives: the settings, and at each look the residents' process trees. Leaves: readings and usage as for a GPU.
A device's utilisation is the busy share of its cores; a resident's is the CPU time of its tree, children it waited for
included. Its energy is that of the machine's processors times its part of the time that all cores were busy.

Memory. The devices together promise `cpu_memory_fraction` of the machine, or of the tightest cgroup limit above us.
What other processes use is on no device until it outgrows the rest of the machine; beyond that it is foreign on every
device alike, and no device shows more free memory than the machine has: one that is used up admits nobody. Page cache
that can be given back counts as free.

A tree's memory is anonymous plus shared memory from /proc/PID/status: 12 microseconds, where the exact `smaps_rollup`
took 8 milliseconds for a TensorFlow process and holds its memory lock meanwhile. Forked processes share pages that this
counts once for each; for them the exact figure is read now and then, one process every few seconds, and the difference
kept. Before the first exact reading such a tree counts as larger than it is.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from gpuq.adapters.devices import Fault, Placement, Resident, Snapshot, Usage
from gpuq.adapters.rapl import Rapl
from gpuq.core.attempt import AttemptId
from gpuq.core.device import Device, DeviceId, HostId, Reading
from gpuq.errors import BadSettings, NotFound
from gpuq.settings import Devices, Settings

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_EXACT_EVERY_S = 5.0
_FOREIGN_MEAN_S = 20.0
_EXACT_ABOVE_BYTES = 16 * 2**20


def open_backend(settings: Settings) -> CpuBackend:
    """The cores this process may use, as devices. Raises BadSettings when there are too few for what is asked."""
    shares = _share_out(sorted(os.sched_getaffinity(0)), settings.devices)
    total = machine_memory().total
    promised = int(total * settings.devices.cpu_memory_fraction)
    host = HostId(settings.worker.host)
    cores = {
        Device(
            DeviceId(f"{host}/cpu{index}"), host, "cpu", f"cpu-{len(share)}", promised // len(shares), index=str(index)
        ): share
        for index, share in enumerate(shares)
    }
    return CpuBackend(cores, total - promised)


def _share_out(cores: Sequence[int], asked: Devices) -> list[tuple[int, ...]]:
    each = asked.cpu_cores or len(cores) // max(1, asked.cpu_count)
    if asked.cpu_count < 1 or each < 1 or each * asked.cpu_count > len(cores):
        raise BadSettings(
            f"{asked.cpu_count} CPU devices of {asked.cpu_cores or 'at least 1'} cores do not fit "
            f"the {len(cores)} cores this process may use.",
            fix="Change `cpu_count` or `cpu_cores` under [devices].",
        )
    if not 0 < asked.cpu_memory_fraction <= 1:
        raise BadSettings(f"`cpu_memory_fraction` must be above 0 and at most 1, not {asked.cpu_memory_fraction}.")
    return [tuple(cores[index * each : (index + 1) * each]) for index in range(asked.cpu_count)]


@dataclass(frozen=True, slots=True)
class Memory:
    """The machine's memory, or that of the tightest cgroup we are under: bytes in all, bytes still to be had."""

    total: int
    available: int


@dataclass(slots=True)
class _Look:
    """What one look saw, for the next to take differences from."""

    at: float
    busy: Mapping[int, tuple[int, int]]
    joules: float | None = None
    cpu_seconds: dict[AttemptId, float] = field(default_factory=dict)
    residents: dict[DeviceId, frozenset[AttemptId]] = field(default_factory=dict)
    foreign: dict[DeviceId, float | None] = field(default_factory=dict)


class CpuBackend:
    """See `devices.Backend`. `unpromised` is the memory in bytes that others may use before it counts."""

    def __init__(
        self,
        cores: Mapping[Device, tuple[int, ...]],
        unpromised: int,
        clock: Callable[[], float] = time.monotonic,
        memory: Callable[[], Memory] | None = None,
        energy: Callable[[], float | None] | None = None,
    ) -> None:
        self._devices = tuple(cores)
        self._cores = {device.id: share for device, share in cores.items()}
        self._unpromised = unpromised
        self._clock = clock
        self._memory = memory or machine_memory
        self._energy = energy or Rapl().spent
        self._last: _Look | None = None
        self._trees = _Trees()

    def devices(self) -> tuple[Device, ...]:
        """The devices, in the order of their cores."""
        return self._devices

    def placement(self, devices: Sequence[DeviceId]) -> Placement:
        """The cores to pin to. GPUs are hidden; thread counts are not set, since libraries follow the pinning."""
        for device in devices:
            if device not in self._cores:
                raise NotFound(f"There is no device {device} on this host.", fix="`gpuq gpus` lists the devices.")
        cores = sorted(core for device in devices for core in self._cores[device])
        return Placement({"CUDA_VISIBLE_DEVICES": ""}, tuple(cores))

    def read(self, now: float, residents: Sequence[Resident]) -> Snapshot:
        """One look; utilisation is None at the first, which has nothing to take a difference from."""
        look = _Look(self._clock(), _busy_ticks(), self._energy())
        usage = {resident.attempt: self._usage(resident, look) for resident in residents}
        self._trees.end_look()
        here = {device: [r for r in residents if device in r.devices] for device in self._cores}
        used = {device: _memory_of(there, usage) for device, there in here.items()}
        foreign_memory = self._foreign_memory(used)
        readings = {}
        for device, there in here.items():
            busy = self._busy_percent(device, look)
            look.residents[device] = frozenset(resident.attempt for resident in there)
            look.foreign[device] = self._foreign_percent(device, busy, look, usage)
            own = used[device]
            both = None if own is None else own + foreign_memory[device]
            readings[device] = Reading(now, both, busy, foreign_memory[device], look.foreign[device])
        self._last = look
        return Snapshot(readings, usage)

    def faults(self) -> Sequence[Fault]:
        """Nobody reports any."""
        return ()

    def close(self) -> None:
        """Nothing is held open."""

    def _usage(self, resident: Resident, look: _Look) -> Usage:
        tree = self._trees.read(resident.root_pid, look.at)
        if tree is None:
            return Usage(None, None)
        # Of a job on several devices each has an even part. Without memory it is ending.
        memory, look.cpu_seconds[resident.attempt] = tree[0] // len(resident.devices) or None, tree[1]
        before = self._last.cpu_seconds.get(resident.attempt) if self._last else None
        cores = sum(len(self._cores.get(device, ())) for device in resident.devices)
        if self._last is None or before is None or look.at <= self._last.at or not cores:
            return Usage(memory, None)
        # A tree's time can fall: a child that nobody waits for takes its time with it.
        spent = max(0.0, look.cpu_seconds[resident.attempt] - before)
        return Usage(memory, 100 * spent / ((look.at - self._last.at) * cores), self._joules(spent, look))

    def _joules(self, spent: float, look: _Look) -> float | None:
        """The part of the processors' energy that goes with so many seconds of one core, of all that were spent."""
        if look.joules is None or self._last is None:
            return None
        before = self._last.busy
        ticks = sum(busy - before[core][0] for core, (busy, _) in look.busy.items() if core in before)
        whole = max(ticks / _TICKS_PER_S, spent)
        return look.joules * spent / whole if whole > 0 else 0.0

    def _foreign_memory(self, used: Mapping[DeviceId, int | None]) -> dict[DeviceId, int]:
        """Bytes of each device that others use up: an even part, and never less than leaves what is still to be had.

        What residents use beyond their own device's share belongs to the others.
        """
        memory = self._memory()
        own = {device.id: min(used[device.id] or 0, device.total_memory) for device in self._devices}
        others = memory.total - memory.available - sum(own.values())
        part = max(0, others - self._unpromised) // len(self._devices)
        return {d.id: max(part, d.total_memory - own[d.id] - memory.available) for d in self._devices}

    def _busy_percent(self, device: DeviceId, look: _Look) -> float | None:
        busy = total = 0
        for core in self._cores[device]:
            if self._last is None or core not in look.busy or core not in self._last.busy:
                return None  # the first look, or a core that was taken offline
            busy += look.busy[core][0] - self._last.busy[core][0]
            total += look.busy[core][1] - self._last.busy[core][1]
        return min(100.0, max(0.0, 100 * busy / total)) if total > 0 else None

    def _foreign_percent(
        self, device: DeviceId, busy: float | None, look: _Look, usage: Mapping[AttemptId, Usage]
    ) -> float | None:
        """Busy without the residents' part, smoothed.

        In the second in which a resident comes or goes the two cannot be told apart: the value before stands.
        """
        if busy is None or self._last is None:
            return None
        if self._last.residents[device] != look.residents[device]:
            return self._last.foreign[device]
        shares = [usage[attempt].utilization_pct for attempt in look.residents[device]]
        if any(share is None for share in shares):
            return None
        now = max(0.0, busy - sum(share for share in shares if share is not None))
        before = self._last.foreign[device]
        if before is None:
            return now
        # A command that runs for a moment is not a partner: what counts is the mean of the last while.
        return before + (now - before) * (1 - math.exp((self._last.at - look.at) / _FOREIGN_MEAN_S))


def _memory_of(residents: Sequence[Resident], usage: Mapping[AttemptId, Usage]) -> int | None:
    """The residents' bytes on one device; None if one cannot be read."""
    parts = [usage[resident.attempt].memory_bytes for resident in residents]
    known = [memory for memory in parts if memory is not None]
    return sum(known) if len(known) == len(parts) else None


# --- process trees -------------------------------------------------------------------------------------------------


class _Trees:
    """Memory and CPU time of process trees. Remembers, per process, how many bytes it shares with its relatives."""

    def __init__(self) -> None:
        self._shared: dict[tuple[int, int], int] = {}
        self._corrected_at: dict[tuple[int, int], float] = {}
        self._seen: set[tuple[int, int]] = set()
        self._last_exact = 0.0

    def read(self, root: int, at: float) -> tuple[int, float] | None:
        """Bytes and CPU seconds of the tree under `root`; None when the root is gone."""
        pids = list(_descendants(root))
        found = [(pid, process) for pid in pids if (process := _read_process(pid)) is not None]
        if not found or found[0][0] != root:
            return None
        memory = 0
        for pid, (start, bytes_, _) in found:
            self._seen.add((pid, start))
            memory += max(0, bytes_ - self._shared.get((pid, start), 0))
        # Beside the shim and one process there is nobody to share pages with.
        if len(found) > 2 and at - self._last_exact >= _EXACT_EVERY_S:
            self._correct_one([(pid, start) for pid, (start, bytes_, _) in found if bytes_ >= _EXACT_ABOVE_BYTES], at)
        return memory, sum(seconds for _, (_, _, seconds) in found)

    def end_look(self) -> None:
        """Forget processes that no tree has any more."""
        for key in self._corrected_at.keys() - self._seen:
            del self._corrected_at[key]
            self._shared.pop(key, None)
        self._seen = set()

    def _correct_one(self, candidates: Sequence[tuple[int, int]], at: float) -> None:
        """Take the exact figure of the process that has waited longest for it."""
        if not candidates:
            return
        key = min(candidates, key=lambda candidate: self._corrected_at.get(candidate, 0.0))
        self._last_exact = self._corrected_at[key] = at
        exact, process = _exact_bytes(key[0]), _read_process(key[0])
        if exact is not None and process is not None:
            self._shared[key] = max(0, process[1] - exact)


def _descendants(root: int) -> Iterator[int]:
    """The process and everything under it, parents first."""
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        yield pid
        waiting.extend(_children(pid))


def _children(pid: int) -> list[int]:
    if not _KERNEL_LISTS_CHILDREN:
        try:
            return [child.pid for child in psutil.Process(pid).children()]
        except psutil.Error:
            return []
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - names are enough
    except OSError:
        return []
    return [int(child) for thread in threads for child in _read(f"/proc/{pid}/task/{thread}/children").split()]


def _read_process(pid: int) -> tuple[int, int, float] | None:
    """Start time in ticks, bytes, CPU seconds with those of the children it waited for; None when it is gone."""
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    if len(fields) < 20:
        return None
    seconds = sum(int(ticks) for ticks in fields[11:15]) / _TICKS_PER_S
    status = _read(f"/proc/{pid}/status")
    return int(fields[19]), _kilobytes(status, b"\nRssAnon:") + _kilobytes(status, b"\nRssShmem:"), seconds


def _exact_bytes(pid: int) -> int | None:
    """Anonymous and shared memory with each shared page split among its users; None where the kernel does not tell."""
    rollup = _read(f"/proc/{pid}/smaps_rollup")
    if b"\nPss_Anon:" not in rollup:
        return None
    return _kilobytes(rollup, b"\nPss_Anon:") + _kilobytes(rollup, b"\nPss_Shmem:")


def _kilobytes(text: bytes, name: bytes) -> int:
    """The bytes that the line `name` gives in kB; 0 without such a line, as for a process that is ending."""
    start = text.find(name)
    return int(text[start + len(name) :].split(None, 1)[0]) * 1024 if start >= 0 else 0


def _read(path: str) -> bytes:
    """A file of /proc, empty when it is gone. Bare calls: this is read dozens of times a second."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(descriptor, 65536)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


_KERNEL_LISTS_CHILDREN = Path("/proc/thread-self/children").exists()


# --- the machine ---------------------------------------------------------------------------------------------------


def _busy_ticks() -> dict[int, tuple[int, int]]:
    """Busy and all ticks of each core. Not psutil's: its list has no core numbers and leaves offline ones out."""
    cores = {}
    for line in Path("/proc/stat").read_bytes().splitlines():
        name, *values = line.split()
        if name[:3] != b"cpu":
            break
        if name != b"cpu":
            ticks = [int(value) for value in values[:8]]
            cores[int(name[3:])] = (sum(ticks) - ticks[3] - ticks[4], sum(ticks))  # not idle, not waiting for disks
    return cores


def machine_memory() -> Memory:
    """What this process could have: the machine's memory, or the cgroup's that leaves the least."""
    machine = psutil.virtual_memory()
    total, available = machine.total, machine.available
    for limit, used in _cgroup_memory():
        total = min(total, limit)
        available = min(available, max(0, limit - used))
    return Memory(total, min(total, available))


def _cgroup_memory() -> Iterator[tuple[int, int]]:
    """Limit and use of each memory cgroup above us, without the page cache that can be given back."""
    for line in _read("/proc/self/cgroup").decode().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            yield from _levels(Path("/sys/fs/cgroup"), path, ("memory.max", "memory.current", b"inactive_file "))
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", b"total_inactive_file ")
            yield from _levels(Path("/sys/fs/cgroup/memory"), path, names)


def _levels(root: Path, path: str, names: tuple[str, str, bytes]) -> Iterator[tuple[int, int]]:
    folder = root / path.lstrip("/")
    for level in (folder, *folder.parents):
        limit, used = _read(str(level / names[0])).strip(), _read(str(level / names[1])).strip()
        if limit.isdigit() and used.isdigit():
            cache = _read(str(level / "memory.stat")).partition(names[2])[2].split(None, 1)
            yield int(limit), max(0, int(used) - (int(cache[0]) if cache else 0))
        if level == root:
            return
