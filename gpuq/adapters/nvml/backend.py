"""NVIDIA GPUs through NVML (`pynvml` of nvidia-ml-py, imported only in this package).

What a GPU does not support is None. A GPU that fails is left out of the readings, logged once and tried again at the next look,
while the others continue. One that had a fatal error is read, but reported as unwell. docs/devices.md lists every call and
where it returns None.

Cost. A look makes about a dozen calls per GPU (2 to 15 microseconds each, measured); graphics processes are only listed every ten
seconds. Handles are fetched once.

Memory: what the driver reserves for itself is not offered to jobs. A job's memory is that of its processes; every other process
is foreign. The utilisation of a job alone on its GPU is the GPU's; beside others it is the driver's value per process. MIG slices
are devices of their own. Their utilisation comes from GPM, so from Hopper on, and never per process.

A GPU is shared through MPS where a process is an MPS client or the MPS server, else by time-slicing. A server that a site runs
starts with its first client, and until then its GPU counts as time-sliced. Our own is started beforehand.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pynvml

from gpuq.adapters.devices import DriverFault, Placement, ResidentProcess, Snapshot
from gpuq.adapters.nvml.calls import Failed, ask, ask_or_none, within
from gpuq.adapters.nvml.device_files import CONTROL_FILES, device_files
from gpuq.adapters.nvml.energy import DeviceEnergy
from gpuq.adapters.nvml.faults import Events, Health, address
from gpuq.adapters.nvml.gpm import Gpm
from gpuq.adapters.nvml.processes import Processes, in_host_pid_namespace, owners
from gpuq.adapters.nvml.sharing import Baseline, GpuObservation, GpuShares, usage_of
from gpuq.adapters.nvml.vitals import read_vitals
from gpuq.adapters.process import ProcFiles
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.device import Device, DeviceId, HostId
from gpuq.core.state.device_names import label
from gpuq.errors import NotFound, Unreachable
from gpuq.settings import Settings

_log = logging.getLogger(__name__)

_UNSEEN_LOOKS = 3
# A pebibyte: far more than any device has.
_MOST_MEMORY = 2**50


def open_backend(settings: Settings) -> NvmlBackend:
    """The GPUs of this host. Raises Unreachable without a driver or without a GPU."""
    try:
        pynvml.nvmlInit()
        gpus = list(_find_gpus(HostId(settings.worker.host), settings.devices.only))
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
    if not in_host_pid_namespace():
        _log.warning("this container has its own pid namespace: the usage of jobs that share a GPU may stay unknown")
    mps = {}
    if settings.devices.mps:
        mps["CUDA_MPS_PIPE_DIRECTORY"] = str(settings.home.mps_pipes)
        if settings.devices.mps_thread_pct:
            mps["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(settings.devices.mps_thread_pct)
    return NvmlBackend(gpus, mps)


@dataclass(slots=True)
class _Gpu:
    """One device, its handles, and its state between looks. `parent`: the whole GPU of a MIG slice, None for a whole GPU."""

    device: Device
    handle: Any
    parent: Any
    instance: int | None
    processes: Processes
    gpm: Gpm
    health: Health
    energy: DeviceEnergy = field(default_factory=DeviceEnergy)
    baseline: Baseline | None = None
    residents: frozenset[AttemptId] = frozenset()
    left_at: float | None = None
    processes_visible: bool | None = None
    unseen_looks: int = 0
    failed: bool = False

    @property
    def whole(self) -> Any:
        """The handle of the whole GPU, also for a slice."""
        return self.handle if self.parent is None else self.parent

    def left_s(self, now: float, residents: Collection[AttemptId]) -> float | None:
        """How long ago one of our attempts left, whose memory the GPU may still show; None if there is none."""
        if self.residents.difference(residents):
            self.left_at = now
        self.residents = frozenset(residents)
        return None if self.left_at is None else now - self.left_at

    def remember(self, share: GpuShares) -> None:
        """Keep what later looks need of this one."""
        self.baseline = share.baseline
        if not share.settles:
            self.left_at = None
        shown = share.shows_ours
        if shown is not None:
            self.unseen_looks = 0 if shown else self.unseen_looks + 1
            # A look may come between a job's first allocation and its entry in the list of processes.
            self.processes_visible = shown or (False if self.unseen_looks >= _UNSEEN_LOOKS else self.processes_visible)


def _find_gpus(host: HostId, only: Sequence[str]) -> Iterator[_Gpu]:
    """The GPUs that answer, and in place of a GPU in MIG mode its slices; only those of these indexes and UUIDs, unless it is
    empty. A GPU stands for all its slices."""
    uuids = [name for name in only if not name.isdecimal()]
    for index in range(pynvml.nvmlDeviceGetCount()):
        if only and not uuids and str(index) not in only:
            continue
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            offered = not only or str(index) in only or pynvml.nvmlDeviceGetUUID(handle) in uuids
            mode = ask(pynvml.nvmlDeviceGetMigMode, handle)
            if not mode or mode[0] != pynvml.NVML_DEVICE_MIG_ENABLE:
                if offered:
                    yield _gpu(handle, None, str(index), host)
                continue
            for number in range(ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
                slice_ = ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, number)
                if slice_ and (offered or pynvml.nvmlDeviceGetUUID(slice_) in uuids):
                    yield _gpu(slice_, handle, f"{index}:{number}", host)
        except (Failed, pynvml.NVMLError) as error:
            _log.warning("GPU %d is left out: %s", index, error, extra={"action": "skip_gpu"})


def _gpu(handle: Any, parent: Any, index: str, host: HostId) -> _Gpu:
    memory = _memory(handle)
    uuid, name = pynvml.nvmlDeviceGetUUID(handle), pynvml.nvmlDeviceGetName(handle)
    total = memory.total - _reserved(memory)
    processes = Processes(handle, parent is not None)
    device = Device(DeviceId(uuid), host, "nvml", name, total, processes.computing().sharing, index)
    whole = handle if parent is None else parent
    # Without its instance id a slice's counters cannot be read, and the whole GPU's are not its own.
    instance = None if parent is None else ask_or_none(pynvml.nvmlDeviceGetGpuInstanceId, handle)
    gpm = Gpm(whole if parent is None or instance is not None else None, instance)
    return _Gpu(device, handle, parent, instance, processes, gpm, Health(whole))


def _memory(handle: object) -> Any:
    """NVML's memory struct, in bytes. Old drivers only know version 1, which counts the driver's own share as used.

    Raises Failed for one that is not known, or cannot be.
    """
    memory = ask(pynvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2)
    memory = memory if memory is not None else ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
    if memory is None:
        raise Failed("its memory is not known")
    if not max(_reserved(memory), memory.used - 1) < memory.total <= _MOST_MEMORY:
        raise Failed(f"its driver says that {memory.used} of {memory.total} bytes are used")
    return memory


def _reserved(memory: Any) -> int:
    return getattr(memory, "reserved", 0)


class NvmlBackend:
    """A `devices.Backend`."""

    def __init__(self, gpus: Sequence[_Gpu], mps: Mapping[str, str] | None = None) -> None:
        """`mps`: the variables that make a job an MPS client."""
        self._mps = mps or {}
        self._gpus = {gpu.device.id: gpu for gpu in gpus}
        self._events = Events()
        self._files = ProcFiles()
        wholes = {address(gpu.whole): gpu.whole for gpu in gpus}
        watched = {name: self._events.register(handle) for name, handle in wholes.items()}
        for gpu in gpus:
            gpu.health.watched = watched[address(gpu.whole)]
            gpu.health.read_recovery(time.monotonic())

    def devices(self) -> tuple[Device, ...]:
        """The GPUs and slices in the driver's order; `sharing` is as of the latest look."""
        return tuple(gpu.device for gpu in self._gpus.values())

    def placement(self, devices: Sequence[DeviceId]) -> Placement:
        """The devices by UUID, which do not depend on the order in which a library counts GPUs."""
        for device in devices:
            if device not in self._gpus:
                raise NotFound(f"There is no device {device} on this host.", fix="`gpuq gpus` lists the devices.")
        env = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(devices)}
        # One MPS daemon serves whole GPUs; each MIG slice would need its own.
        mps = {} if any(self._gpus[device].parent is not None for device in devices) else self._mps
        nodes = (
            node for device in devices for node in device_files(self._gpus[device].handle, self._gpus[device].parent)
        )
        return Placement({**env, **mps}, None, (*CONTROL_FILES, *dict.fromkeys(nodes)))

    def faults(self) -> Sequence[DriverFault]:
        """The driver's errors since the last call. An error that names no slice is reported for every slice."""
        now, found = time.monotonic(), []
        for whole, xid, instance in self._events.take():
            for gpu in self._gpus.values():
                if address(gpu.whole) == whole and (instance is None or gpu.instance in (None, instance)):
                    gpu.health.note(xid, now)
                    found.append(DriverFault(gpu.device.id, xid))
        return found

    def read(self, now: float, residents: Sequence[ResidentProcess]) -> Snapshot:
        """Take readings of every GPU that answers."""
        seen = {
            device: look for device, gpu in self._gpus.items() if (look := _look(gpu, now, self._files)) is not None
        }
        pids = {pid for look in seen.values() for pid in look.processes or ()}
        found = owners(pids, residents, self._files.read)
        shares = {}
        for device, look in seen.items():
            gpu, here = self._gpus[device], [one.attempt for one in residents if device in one.devices]
            share = shares[device] = GpuShares(look, found, here, gpu.baseline, gpu.left_s(now, here))
            gpu.remember(share)
        readings = {
            device: share.reading(now, self._gpus[device].processes_visible) for device, share in shares.items()
        }
        usage = {resident.attempt: usage_of(resident, shares, readings) for resident in residents}
        self._files.end_look()
        return Snapshot(readings, usage)

    def memory(self, _: ResidentProcess, /) -> None:
        """None: a list of a device's processes takes the driver milliseconds, and jobs on GPUs run for longer than a second."""

    def close(self) -> None:
        """Let go of the driver."""
        self._events.close()
        self._files.close()
        for gpu in self._gpus.values():
            gpu.gpm.close()
        try:
            pynvml.nvmlShutdown()
        except pynvml.NVMLError as error:
            _log.info("the NVIDIA driver did not shut down cleanly: %s", error)


# --- one GPU -------------------------------------------------------------------------------------------------------


def _look(gpu: _Gpu, now: float, files: ProcFiles) -> GpuObservation | None:
    try:
        seen, sharing = _see(gpu, now, files)
    except Failed as error:
        if not gpu.failed:
            name = label(gpu.device)
            _log.error(
                "%s does not answer and gets no jobs until it does: %s", name, error, extra={"action": "gpu_failed"}
            )
        gpu.failed = True
        return None
    if gpu.failed:
        _log.warning("%s answers again", label(gpu.device), extra={"action": "gpu_recovered"})
    gpu.failed = False
    if sharing != gpu.device.sharing:
        gpu.device = replace(gpu.device, sharing=sharing)
    return seen


def _see(gpu: _Gpu, now: float, files: ProcFiles) -> tuple[GpuObservation, str | None]:
    """(observation, how the processes on it share the GPU). Raises Failed."""
    memory = _memory(gpu.handle)
    rates = None if gpu.parent is not None else ask(pynvml.nvmlDeviceGetUtilizationRates, gpu.handle)
    found = gpu.processes.computing(files.read)
    processes = gpu.processes.memory(found, now, gpu.device.total_memory)
    activity = gpu.gpm.read(now)
    bus_busy_pct = None if rates is None else within(rates.memory, 100)
    vitals = read_vitals(gpu.handle, gpu.parent, activity, bus_busy_pct, gpu.health.counts())
    empty = processes is not None and processes.keys() <= found.servers
    spent = gpu.energy.look(now, vitals.energy_joules, vitals.power_watts, empty=empty)
    return GpuObservation(
        used=int(memory.used),
        utilization=activity.busy_pct if rates is None else within(rates.gpu, 100),
        processes=processes,
        shares=gpu.processes.shares(now),
        servers=found.servers,
        spent=spent,
        vitals=vitals,
        unwell=gpu.health.unwell(time.monotonic()),
    ), found.sharing
