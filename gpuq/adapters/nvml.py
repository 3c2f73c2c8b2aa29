"""NVIDIA GPUs through NVML: the one module that imports `pynvml` (nvidia-ml-py).

Arrives: at each look the residents' process trees. Leaves: readings and usage. Every call to the driver goes through
`_ask`: what a GPU does not support is None; a GPU that fails is left out of the readings and logged once, and
tried again at the next look, while the others go on.

Costs. A look asks each GPU four quick questions (2 to 15 microseconds each) and, only every ten seconds, for its graphics
processes: that call was seen to take 4.5 ms and to hold the driver's lock meanwhile. Handles are fetched once.

Memory is the driver's: what it reserves for itself is not ours to promise. A job's is that of its processes, found by
climbing from each process on the GPU to a resident's root; every other process is foreign. In a container this needs the
process numbers of the host, else all are foreign and the GPU is shared with nobody.

Utilisation of a job that is alone on its GPU is the GPU's; beside others it is the driver's figure per process, with the
time of its last sample passed back, since else it averages over a span of its own choosing. Drivers were seen to return
rubbish there (thousands of percent, processes that do not exist), so what is not a percentage is not used. MIG slices
are devices of their own; for them drivers give memory, no utilisation.

The way of sharing is MPS where a process is an MPS client, or is the MPS server; else the driver slices time. The server
starts with its first client, so a GPU set up for MPS counts as sliced until a job has used it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import pynvml

from gpuq.adapters.devices import Placement, Resident, Snapshot, Usage
from gpuq.core.attempt import AttemptId
from gpuq.core.device import Device, DeviceId, HostId, Reading
from gpuq.errors import NotFound, Unreachable
from gpuq.settings import Settings

_GRAPHICS_EVERY_S = 10.0
_SAMPLE_VALID_S = 3.0
_MPS_SERVER = b"nvidia-cuda-mps-server"
N = TypeVar("N", int, float)
_log = logging.getLogger(__name__)

# Not known here, as opposed to broken. `INSUFFICIENT_SIZE` comes when processes appear between the driver's two answers.
_UNKNOWN = frozenset(
    {
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_NO_PERMISSION,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_INSUFFICIENT_SIZE,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
    }
)
_NOTHING = frozenset({pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_SUCCESS})


def open_backend(settings: Settings) -> NvmlBackend:
    """The GPUs of this host. Raises Unreachable without a driver, or with one that knows no GPU."""
    try:
        pynvml.nvmlInit()
        gpus = list(_find_gpus(HostId(settings.worker.host)))
    except pynvml.NVMLError as error:
        raise Unreachable(
            f"The NVIDIA driver does not answer: {error}.",
            fix='`nvidia-smi` must list the GPUs; else set `backend = "cpu"` under [devices].',
        ) from error
    if not gpus:
        raise Unreachable(
            "The NVIDIA driver answers, but no GPU does.",
            fix='See what `nvidia-smi` says; or set `backend = "cpu"` under [devices].',
        )
    return NvmlBackend(gpus)


class _Failed(Exception):
    """A GPU did not answer a question that it should know the answer to."""


def _ask(question: Callable[..., Any], *arguments: object) -> Any:
    """The driver's answer; None where it is not known, an empty list where there is nothing. Raises _Failed."""
    try:
        return question(*arguments)
    except pynvml.NVMLError as error:
        if error.value in _NOTHING:
            return []
        if error.value in _UNKNOWN:
            return None
        raise _Failed(f"{question.__name__}: {error}") from error


@dataclass(slots=True)
class _Gpu:
    """One device, its handle, and what is remembered of it from look to look."""

    device: Device
    handle: object
    slice_: bool
    graphics: dict[int, int | None] = field(default_factory=dict)
    graphics_at: float | None = None
    samples: dict[int, tuple[int, float]] = field(default_factory=dict)
    newest_sample: int = 0
    failed: bool = False


@dataclass(frozen=True, slots=True)
class _Computing:
    """The driver's processes that compute, and its MPS clients; None where it does not tell."""

    processes: Sequence[Any] | None
    clients: Sequence[Any] | None

    @property
    def sharing(self) -> str | None:
        """As `Device.sharing`."""
        if self.clients or any(_is_mps_server(process.pid) for process in self.processes or ()):
            return "mps"
        return None if self.processes is None else "time-slicing"


@dataclass(frozen=True, slots=True)
class _Seen:
    """What one GPU says now. `processes` gives bytes, None for one whose memory is not known; `shares` percent."""

    used: int | None
    utilization: float | None
    processes: Mapping[int, int | None] | None
    shares: Mapping[int, float] | None


def _find_gpus(host: HostId) -> Iterator[_Gpu]:
    for index in range(pynvml.nvmlDeviceGetCount()):
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            mode = _ask(pynvml.nvmlDeviceGetMigMode, handle)
            if mode and mode[0] == pynvml.NVML_DEVICE_MIG_ENABLE:
                yield from _find_slices(handle, host)
            else:
                yield _Gpu(_describe(handle, host), handle, False)
        except (_Failed, pynvml.NVMLError) as error:
            _log.warning("GPU %d is left out: %s", index, error)


def _find_slices(parent: object, host: HostId) -> Iterator[_Gpu]:
    for index in range(_ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, parent) or 0):
        handle = _ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, parent, index)
        if handle:
            yield _Gpu(_describe(handle, host), handle, True)


def _describe(handle: object, host: HostId) -> Device:
    memory = _memory(handle)
    if memory is None:
        raise _Failed("its memory is not known")
    uuid, name = pynvml.nvmlDeviceGetUUID(handle), pynvml.nvmlDeviceGetName(handle)
    total = memory.total - getattr(memory, "reserved", 0)
    return Device(DeviceId(uuid), host, "nvml", name, total, _computing(handle).sharing)


def _memory(handle: object) -> Any:
    """Totals in bytes. Old drivers only know the first version, which counts their own share as used."""
    memory = _ask(pynvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2)
    return memory if memory is not None else _ask(pynvml.nvmlDeviceGetMemoryInfo, handle)


class NvmlBackend:
    """See `devices.Backend`."""

    def __init__(self, gpus: Sequence[_Gpu]) -> None:
        self._gpus = {gpu.device.id: gpu for gpu in gpus}

    def devices(self) -> tuple[Device, ...]:
        """The GPUs and slices, in the driver's order, shared as at the latest look."""
        return tuple(gpu.device for gpu in self._gpus.values())

    def placement(self, devices: Sequence[DeviceId]) -> Placement:
        """The devices by UUID, which stays the same whatever order a library counts GPUs in."""
        for device in devices:
            if device not in self._gpus:
                raise NotFound(f"There is no device {device} on this host.", fix="`gpuq gpus` lists the devices.")
        return Placement({"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(devices)}, None)

    def read(self, now: float, residents: Sequence[Resident]) -> Snapshot:
        """One look at every GPU that answers."""
        seen = {device: look for device, gpu in self._gpus.items() if (look := _look(gpu, now)) is not None}
        owners = _owners({pid for look in seen.values() for pid in look.processes or ()}, residents)
        shares = {device: _Share(look, owners) for device, look in seen.items()}
        readings = {device: share.reading(now) for device, share in shares.items()}
        usage = {resident.attempt: _usage(resident, shares) for resident in residents}
        return Snapshot(readings, usage)

    def close(self) -> None:
        """Let go of the driver."""
        try:
            pynvml.nvmlShutdown()
        except pynvml.NVMLError as error:
            _log.info("the NVIDIA driver did not take its leave: %s", error)


# --- one GPU -------------------------------------------------------------------------------------------------------


def _look(gpu: _Gpu, now: float) -> _Seen | None:
    try:
        memory = _memory(gpu.handle)
        rates = None if gpu.slice_ else _ask(pynvml.nvmlDeviceGetUtilizationRates, gpu.handle)
        computing = _computing(gpu.handle)
        seen = _Seen(
            used=None if memory is None else int(memory.used),
            utilization=None if rates is None else float(rates.gpu),
            processes=_processes(gpu, computing, now),
            shares=None if gpu.slice_ else _process_shares(gpu, now),
        )
    except _Failed as error:
        if not gpu.failed:
            _log.error("GPU %s does not answer and gets no jobs until it does: %s", gpu.device.id, error)
        gpu.failed = True
        return None
    if gpu.failed:
        _log.warning("GPU %s answers again", gpu.device.id)
    gpu.failed = False
    if computing.sharing != gpu.device.sharing:
        gpu.device = replace(gpu.device, sharing=computing.sharing)
    return seen


def _computing(handle: object) -> _Computing:
    return _Computing(
        _ask(pynvml.nvmlDeviceGetComputeRunningProcesses, handle),
        _ask(pynvml.nvmlDeviceGetMPSComputeRunningProcesses, handle),
    )


def _is_mps_server(pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0]
    except OSError:
        return False
    return command.rpartition(b"/")[2] == _MPS_SERVER


def _processes(gpu: _Gpu, computing: _Computing, now: float) -> dict[int, int | None] | None:
    """Bytes per process; None if the driver does not tell. One process may be listed as compute and as graphics."""
    if computing.processes is None:
        return None
    if gpu.graphics_at is None or not 0 <= now - gpu.graphics_at < _GRAPHICS_EVERY_S:
        gpu.graphics_at = now
        graphics = _ask(pynvml.nvmlDeviceGetGraphicsRunningProcesses, gpu.handle) or []
        gpu.graphics = {process.pid: process.usedGpuMemory for process in graphics}
    found = {pid: held for pid, held in gpu.graphics.items() if Path(f"/proc/{pid}").exists()}
    for process in (*computing.processes, *(computing.clients or ())):
        held = found.get(process.pid, 0)
        known = held is not None and process.usedGpuMemory is not None
        found[process.pid] = max(held, process.usedGpuMemory) if known else None
    return found


def _process_shares(gpu: _Gpu, now: float) -> dict[int, float] | None:
    """Percent per process, from its latest sample; processes without a fresh one did nothing."""
    samples = _ask(pynvml.nvmlDeviceGetProcessUtilization, gpu.handle, gpu.newest_sample)
    if samples is None:
        return None
    for sample in samples:
        if sample.smUtil <= 100 and sample.timeStamp >= gpu.samples.get(sample.pid, (0, 0))[0]:
            gpu.samples[sample.pid] = (sample.timeStamp, float(sample.smUtil))
            gpu.newest_sample = max(gpu.newest_sample, sample.timeStamp)
    oldest = (now - _SAMPLE_VALID_S) * 1e6
    gpu.samples = {pid: sample for pid, sample in gpu.samples.items() if sample[0] >= oldest}
    return {pid: share for pid, (_, share) in gpu.samples.items()}


# --- who is who ----------------------------------------------------------------------------------------------------


def _owners(pids: set[int], residents: Sequence[Resident]) -> dict[int, AttemptId]:
    """The attempt of each process that stands under a resident's root."""
    roots = {resident.root_pid: resident.attempt for resident in residents}
    owners = {}
    for pid in pids:
        ancestor = next((parent for parent in _ancestry(pid) if parent in roots), None)
        if ancestor is not None:
            owners[pid] = roots[ancestor]
    return owners


def _ancestry(pid: int) -> Iterator[int]:
    while pid > 1:
        yield pid
        try:
            stat = Path(f"/proc/{pid}/stat").read_bytes()
        except OSError:
            return
        pid = int(stat.rpartition(b")")[2].split()[1])


class _Share:
    """One GPU's answers, shared out between our attempts and the others."""

    def __init__(self, seen: _Seen, owners: Mapping[int, AttemptId]) -> None:
        self._seen = seen
        pids = seen.processes or {}
        self._foreign = [pid for pid in pids if pid not in owners]
        self._ours = {pid: owners[pid] for pid in pids if pid in owners}

    def reading(self, now: float) -> Reading:
        """The GPU as a whole."""
        seen = self._seen
        return Reading(now, seen.used, seen.utilization, self._foreign_memory(), self._foreign_utilization())

    def memory_of(self, attempt: AttemptId) -> int | None:
        """Bytes of one attempt here; 0 before it has touched the GPU."""
        if self._seen.processes is None:
            return None
        return _sum_known([self._seen.processes[pid] for pid, owner in self._ours.items() if owner == attempt])

    def utilization_of(self, attempt: AttemptId) -> float | None:
        """Percent of one attempt here."""
        if self._seen.processes is None:
            return None
        if attempt not in self._ours.values():
            return 0.0
        if not self._foreign and set(self._ours.values()) == {attempt}:
            return self._seen.utilization
        return self._sum_shares([pid for pid, owner in self._ours.items() if owner == attempt])

    def _foreign_memory(self) -> int | None:
        """What is used and not ours; the driver's own small leftovers count too."""
        seen = self._seen
        if seen.used is None or seen.processes is None:
            return None
        ours = _sum_known([seen.processes[pid] for pid in self._ours])
        if ours is None:
            return None if self._foreign else 0
        return max(0, seen.used - ours)

    def _foreign_utilization(self) -> float | None:
        if self._seen.processes is None:
            return None
        if not self._foreign:
            return 0.0
        return self._sum_shares(self._foreign) if self._ours else self._seen.utilization

    def _sum_shares(self, pids: Sequence[int]) -> float | None:
        shares = self._seen.shares
        return None if shares is None else min(100.0, sum(shares.get(pid, 0.0) for pid in pids))


def _usage(resident: Resident, shares: Mapping[DeviceId, _Share]) -> Usage:
    """Bytes and percent on the device where each is highest: promises and budgets are per device. None if one does not answer."""
    here = [shares[device] for device in resident.devices if device in shares]
    if not here or len(here) < len(resident.devices):
        return Usage(None, None)
    return Usage(
        _highest_known([share.memory_of(resident.attempt) for share in here]),
        _highest_known([share.utilization_of(resident.attempt) for share in here]),
    )


def _highest_known(values: Sequence[N | None]) -> N | None:
    known = [value for value in values if value is not None]
    return max(known) if known and len(known) == len(values) else None


def _sum_known(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
