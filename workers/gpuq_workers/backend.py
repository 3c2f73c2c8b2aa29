"""Open the device backend that the settings name, loading only the library that it needs."""

from __future__ import annotations

import logging

from gpuq.adapters.devices import Backend
from gpuq.errors import BadSettings, Unreachable
from gpuq.settings import Settings

_log = logging.getLogger(__name__)


def open_backend(settings: Settings) -> Backend:
    """The backend of `devices.backend`; `auto` is NVML where it works, else CPU. Raises BadSettings; Unreachable for `nvml`."""
    wanted = settings.devices.backend
    if wanted == "none":
        raise BadSettings(
            "This host runs no jobs: `backend` under [devices] is `none`.",
            fix="Run no worker service here, or change it.",
        )
    if wanted != "cpu":
        from gpuq.adapters.nvml.backend import open_backend as open_nvml

        try:
            return open_nvml(settings)
        except Unreachable as error:
            if wanted == "nvml":
                raise
            _log.info("using CPU devices, because no NVIDIA GPU is usable: %s", error.message)
    from gpuq.adapters.cpu.backend import open_backend as open_cpu

    return open_cpu(settings)
