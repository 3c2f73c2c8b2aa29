"""Open the device backend that the settings name, loading only the library that it needs."""

from __future__ import annotations

import logging

from gpuq.adapters.devices import Backend
from gpuq.errors import Unreachable
from gpuq.settings import Settings

_log = logging.getLogger(__name__)


def open_backend(settings: Settings) -> Backend:
    """The backend of `devices.backend`; `auto` is NVML where it works, else CPU. Raises BadSettings; Unreachable for `nvml`."""
    match settings.devices.backend:
        case "cpu":
            return _open_cpu(settings)
        case "nvml":
            return _open_nvml(settings)
        case "auto":
            try:
                return _open_nvml(settings)
            except Unreachable as error:
                _log.info("using CPU devices, because no NVIDIA GPU is usable: %s", error.message)
                return _open_cpu(settings)


def _open_cpu(settings: Settings) -> Backend:
    from gpuq.adapters.cpu.backend import open_backend

    return open_backend(settings)


def _open_nvml(settings: Settings) -> Backend:
    from gpuq.adapters.nvml.backend import open_backend

    return open_backend(settings)
