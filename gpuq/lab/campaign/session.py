"""What a reader of a campaign's figures has to know: machine, device, software versions and options of each start."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec
import psutil

from gpuq.core.state.device import Device

_LIBRARIES = ("gpuq-daemon", "tensorflow", "keras", "torch", "jax", "numpy")


class Session(msgspec.Struct, frozen=True, kw_only=True, tag="session"):
    """One start of `gpuq characterize`. `at` is UTC; memory in bytes; `libraries` gives the versions that are installed."""

    at: str
    arguments: tuple[str, ...]
    device: str
    device_type: str
    device_memory: int
    cores: tuple[int, ...] | None
    processor: str | None
    processors: int | None
    memory: int
    system: str
    python: str
    libraries: dict[str, str]


def session(device: Device, cores: tuple[int, ...] | None, arguments: Sequence[str], now: float) -> Session:
    """A description of this start on this machine; what the machine does not tell is None. `now`: Unix seconds."""
    return Session(
        at=datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds"),
        arguments=tuple(arguments),
        device=device.id,
        device_type=device.type,
        device_memory=device.total_memory,
        cores=cores,
        processor=_processor(),
        processors=os.cpu_count(),
        memory=psutil.virtual_memory().total,
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        libraries={name: found for name in _LIBRARIES if (found := _version(name)) is not None},
    )


def _processor() -> str | None:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or None


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
