"""The processes on a GPU, their memory and utilisation, and which attempt each belongs to.

A process belongs to an attempt if that attempt's shim is among its ancestors. In a container with its own pid namespace most
drivers report the host's pids, so none is found to be ours; `sharing.py` handles that. Utilisation per process is requested
with the time of the driver's last sample, because otherwise the driver averages over a span of its own choice (nvtop's issue
91). Drivers were seen to return nonsense there (thousands of percent, processes that do not exist), so values that are no
percentage are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pynvml

from gpuq.adapters.devices import ResidentProcess
from gpuq.adapters.nvml.calls import Failed, ask, ask_newest, ask_or_none
from gpuq.adapters.process import read_proc
from gpuq.core.state.attempt import AttemptId

_GRAPHICS_EVERY_S = 10.0
_SAMPLE_VALID_S = 3.0
_MPS_SERVER = b"nvidia-cuda-mps-server"
# Each list's version 3, and version 2 for older drivers.
_COMPUTE = (pynvml.nvmlDeviceGetComputeRunningProcesses_v3, pynvml.nvmlDeviceGetComputeRunningProcesses_v2)
_MPS_CLIENTS = (pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3, pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v2)
_GRAPHICS = (pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3, pynvml.nvmlDeviceGetGraphicsRunningProcesses_v2)
_EXCLUSIVE = (pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS, pynvml.NVML_COMPUTEMODE_EXCLUSIVE_THREAD)
# PROC_PID_INIT_INO in the kernel's include/linux/proc_ns.h: the pid namespace that a machine starts with.
_INITIAL_NAMESPACE = "pid:[4026531836]"


def in_host_pid_namespace() -> bool:
    """Whether our pids are those that the driver reports: we are in the machine's initial pid namespace."""
    try:
        return str(Path("/proc/self/ns/pid").readlink()) == _INITIAL_NAMESPACE
    except OSError:
        return True


@dataclass(frozen=True, slots=True)
class Computing:
    """The driver's lists of compute processes and MPS clients, None if it has none; and the pids that are MPS servers.

    `is_exclusive`: its compute mode lets one process at a time use the GPU, which may be an MPS server.
    """

    processes: Sequence[Any] | None
    clients: Sequence[Any] | None
    servers: frozenset[int]
    is_exclusive: bool

    @property
    def sharing(self) -> str | None:
        """The value of `Device.sharing`."""
        if self.clients or self.servers:
            return "mps"
        if self.is_exclusive:
            return "exclusive"
        return None if self.processes is None else "time-slicing"


@dataclass(slots=True)
class Processes:
    """One GPU's processes, with the state that is kept between looks."""

    handle: object
    slice_: bool
    _programs: dict[int, bytes] = field(default_factory=dict)
    _graphics: dict[int, int | None] = field(default_factory=dict)
    _graphics_at: float | None = None
    _samples: dict[int, tuple[int, float]] = field(default_factory=dict)
    _newest_sample: int = 0

    def computing(self, read: Callable[[str], bytes] = read_proc) -> Computing:
        """The processes that compute on this GPU now. `read` reads a file of /proc. Raises Failed, also where none may.

        A process that stays listed stays the same program, because its hold on the GPU ends with an exec: it is looked up once.
        """
        mode = ask_or_none(pynvml.nvmlDeviceGetComputeMode, self.handle)
        if mode == pynvml.NVML_COMPUTEMODE_PROHIBITED:
            raise Failed("its compute mode lets no program use it")
        processes, clients = ask_newest(_COMPUTE, self.handle), ask_newest(_MPS_CLIENTS, self.handle)
        self._programs = {
            process.pid: self._programs.get(process.pid) or read(f"/proc/{process.pid}/cmdline").partition(b"\0")[0]
            for process in processes or ()
        }
        servers = (pid for pid, program in self._programs.items() if program.rpartition(b"/")[2] == _MPS_SERVER)
        return Computing(processes, clients, frozenset(servers), mode in _EXCLUSIVE)

    def memory(self, found: Computing, now: float, most: int) -> dict[int, int | None] | None:
        """Bytes per process, None for one whose memory is unknown or above `most`; None if the driver lists no processes.

        A process may be listed as compute and as graphics. Graphics processes are listed every ten seconds only, because that
        call was seen to take 4.5 ms and to hold the driver's lock meanwhile (MangoHud's issue 2104).
        """
        if found.processes is None:
            return None
        if self._graphics_at is None or not 0 <= now - self._graphics_at < _GRAPHICS_EVERY_S:
            self._graphics_at = now
            self._graphics = {
                process.pid: process.usedGpuMemory for process in ask_newest(_GRAPHICS, self.handle) or []
            }
        # The graphics list may be ten seconds old; processes that have ended since hold nothing.
        held = {pid: bytes_ for pid, bytes_ in self._graphics.items() if Path(f"/proc/{pid}").exists()}
        for process in (*found.processes, *(found.clients or ())):
            before = held.get(process.pid, 0)
            known = before is not None and process.usedGpuMemory is not None
            held[process.pid] = max(before, process.usedGpuMemory) if known else None
        return {pid: None if bytes_ is None or bytes_ > most else bytes_ for pid, bytes_ in held.items()}

    def shares(self, now: float) -> dict[int, float] | None:
        """Percent per process from its latest sample; a process without a recent sample used nothing. None for MIG slices and
        drivers without samples. `now` is wall time, as in the samples."""
        if self.slice_:
            return None
        if self._newest_sample > (now + _SAMPLE_VALID_S) * 1e6:
            # The wall clock, which stamps the samples, was set back: all later ones would count as old.
            self._newest_sample, self._samples = 0, {}
        samples = ask(pynvml.nvmlDeviceGetProcessUtilization, self.handle, self._newest_sample, nothing=())
        if samples is None:
            return None
        # The newest time stamp is remembered over all processes: passing it back makes the driver average since then only.
        for sample in samples:
            if sample.smUtil <= 100 and sample.timeStamp >= self._samples.get(sample.pid, (0, 0))[0]:
                self._samples[sample.pid] = (sample.timeStamp, float(sample.smUtil))
                self._newest_sample = max(self._newest_sample, sample.timeStamp)
        oldest = (now - _SAMPLE_VALID_S) * 1e6
        self._samples = {pid: sample for pid, sample in self._samples.items() if sample[0] >= oldest}
        return {pid: share for pid, (_, share) in self._samples.items()}


def owners(
    pids: Iterable[int], residents: Sequence[ResidentProcess], read: Callable[[str], bytes]
) -> Mapping[int, AttemptId | None]:
    """The attempt of each process, None for one that is below no resident's root. `read` reads a file of /proc.

    A process that cannot be read is left out. In a container with its own pid namespace, so is every process that is not below a
    root: its pid may be the host's, and another process here may have the same.
    """
    roots = {resident.root_pid: resident.attempt for resident in residents}
    same_namespace = in_host_pid_namespace()
    parents: dict[int, int | None] = {}

    def parent_of(pid: int) -> int | None:
        # Each process is read once, since many have the same ancestors; None for one that is gone.
        if pid not in parents:
            stat = read(f"/proc/{pid}/stat") if pid > 0 else b""
            parents[pid] = int(stat.rpartition(b")")[2].split()[1]) if stat else None
        return parents[pid]

    found: dict[int, AttemptId | None] = {}
    for pid in pids:
        ancestor: int | None = pid
        if parent_of(pid) is None:
            continue
        while ancestor is not None and ancestor > 1 and ancestor not in roots:
            ancestor = parent_of(ancestor)
        owner = None if ancestor is None else roots.get(ancestor)
        if owner is not None or same_namespace:
            found[pid] = owner
    return found
