"""Open the device backend that the settings name, loading only the library that it needs."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from gpuq.adapters.devices import Backend, DriverFault, Placement, ResidentProcess, ResidentUsage, Snapshot
from gpuq.core.state.device import Device, DeviceId
from gpuq.errors import BadSettings, Unreachable
from gpuq.settings import Settings

_log = logging.getLogger(__name__)

# The NVIDIA driver makes it where it is loaded, and a container has it only if it was given GPUs.
_DRIVER_FILE = Path("/dev/nvidiactl")
_TRY_EVERY_S = 5.0


def open_backend(settings: Settings) -> Backend:
    """The backend of `devices.backend`. Raises BadSettings; Unreachable for `nvml`.

    `auto` is NVML where it works, and CPU on a machine without GPUs. On one that has them a failing driver is waited for: a job
    that asked for a GPU must not run without one.
    """
    wanted = settings.devices.backend
    if wanted == "none":
        raise BadSettings(
            "This host runs no jobs: `backend` under [devices] is `none`.",
            fix="Run no worker service here, or change it.",
        )
    if wanted != "cpu":
        try:
            return _open_gpus(settings)
        except Unreachable as error:
            if wanted == "nvml":
                raise
            if settings.home.gpus_file.exists() or _DRIVER_FILE.exists():
                _log.warning("this host has GPUs, and no job starts here until they answer: %s", error)
                return _AwaitedGpus(lambda: _open_gpus(settings), error)
            _log.info("using CPU devices, because no NVIDIA GPU is usable: %s", error.message)
    from gpuq.adapters.cpu.backend import open_backend as open_cpu

    return open_cpu(settings)


def _open_gpus(settings: Settings) -> Backend:
    from gpuq.adapters.nvml.backend import open_backend

    backend = open_backend(settings)
    with suppress(OSError):  # a full disk: the next start writes it
        settings.home.gpus_file.touch(0o600)
    return backend


class _AwaitedGpus:
    """A `devices.Backend` without a device until `open_` succeeds, which is tried every few seconds."""

    def __init__(self, open_: Callable[[], Backend], error: Unreachable, clock: Callable[[], float] = time.monotonic):
        """`error`: why it failed last."""
        self._open, self._error, self._clock = open_, error, clock
        self._gpus: Backend | None = None
        self._again_at = clock() + _TRY_EVERY_S

    def devices(self) -> tuple[Device, ...]:
        """See Backend."""
        gpus = self._tried()
        return () if gpus is None else gpus.devices()

    def read(self, now: float, residents: Sequence[ResidentProcess]) -> Snapshot:
        """See Backend."""
        gpus = self._tried()
        if gpus is None:
            return Snapshot({}, {resident.attempt: ResidentUsage(None, None) for resident in residents})
        return gpus.read(now, residents)

    def memory(self, resident: ResidentProcess, /) -> ResidentUsage | None:
        """See Backend."""
        return None if self._gpus is None else self._gpus.memory(resident)

    def faults(self) -> Sequence[DriverFault]:
        """See Backend."""
        return () if self._gpus is None else self._gpus.faults()

    def placement(self, devices: Sequence[DeviceId]) -> Placement:
        """See Backend. Raises Unreachable without the driver."""
        self._again_at = self._clock()  # another process has seen these devices since
        gpus = self._tried()
        if gpus is None:
            raise self._error
        return gpus.placement(devices)

    def close(self) -> None:
        """See Backend."""
        if self._gpus is not None:
            self._gpus.close()

    def _tried(self) -> Backend | None:
        if self._gpus is None and self._clock() >= self._again_at:
            self._again_at = self._clock() + _TRY_EVERY_S
            try:
                self._gpus = self._open()
                _log.warning("the GPUs of this host answer now")
            except Unreachable as error:
                self._error = error
        return self._gpus
