"""Which kind of devices this host has: settings arrive, an open backend leaves. Only the library that is needed is loaded."""

from __future__ import annotations

import logging

from gpuq.adapters.devices import Backend
from gpuq.errors import Unreachable
from gpuq.settings import Settings

_log = logging.getLogger(__name__)


def open_backend(settings: Settings) -> Backend:
    """The device backend that the settings name. Raises BadSettings; Unreachable where `nvml` is asked for in vain."""
    match settings.devices.backend:
        case "cpu":
            return _open_cpu(settings)
        case "nvml":
            return _open_nvml(settings)
        case "auto":
            try:
                return _open_nvml(settings)
            except Unreachable as error:
                _log.info("CPU devices, since there is no NVIDIA GPU to use: %s", error.message)
                return _open_cpu(settings)


def _open_cpu(settings: Settings) -> Backend:
    from gpuq.adapters.cpu.backend import open_backend

    return open_backend(settings)


def _open_nvml(settings: Settings) -> Backend:
    from gpuq.adapters.nvml.backend import open_backend

    return open_backend(settings)
