"""Opens the device that a campaign measures on, and decides how its two jobs share it.

A CPU device is one core (or `--cores`); both jobs of a pair are pinned to it, and the second may warm up on the next device's
cores. For MPS the campaign starts a control daemon of its own and ends it afterwards.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from gpuq_workers import mps
from gpuq_workers.backend import open_backend
from gpuq_workers.shim.mps import PIPES

from gpuq.adapters.devices import Backend, Placement
from gpuq.core.state.device import Device
from gpuq.core.state.device_names import DeviceNames, label
from gpuq.errors import BadInput, NotFound
from gpuq.home import Home
from gpuq.lab.measured import SHARING_MODES
from gpuq.settings import Settings

TIME_SLICING, MPS = SHARING_MODES


@dataclass(frozen=True)
class MeasuringDevice:
    """The device, the placement of its jobs, and other cores on which a second job may warm up (None: on the device itself)."""

    device: Device
    placement: Placement
    warm_cores: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Choice:
    """The user's options: a backend, cores of a CPU device, a device's index, name or UUID, a way of sharing."""

    backend: Literal["auto", "nvml", "cpu"] = "auto"
    cores: int = 1
    device: str | None = None
    sharing: str | None = None


@contextmanager
def opened(settings: Settings, choice: Choice, folder: Path) -> Iterator[tuple[Backend, MeasuringDevice, str]]:
    """The open backend, the device, and its way of sharing as the tables name it. `folder` is for the MPS daemon's files.

    Raises BadInput or NotFound where there is no such device.
    """
    count = len(os.sched_getaffinity(0)) // choice.cores
    if count < 1:
        raise BadInput(f"--cores {choice.cores} is more than this process may use.", fix="Ask for fewer.")
    devices = replace(
        settings.devices,
        backend=choice.backend,
        cpu_count=count,
        cpu_cores=choice.cores,
        mps=choice.sharing == MPS or (choice.sharing is None and settings.devices.mps),
    )
    # A home of its own, so that a running gpuq's MPS daemon, with its pipes in another folder, is not touched.
    ours = replace(settings, devices=devices, home=Home(folder.absolute()))
    backend = open_backend(ours)
    try:
        target = _target(backend, choice.device)
        sharing = _sharing(target, choice.sharing)
        if sharing == MPS:
            mps.start(ours)
        try:
            yield backend, target, sharing
        finally:
            if sharing == MPS:
                mps.stop(ours)
    finally:
        backend.close()


def _target(backend: Backend, named: str | None) -> MeasuringDevice:
    """The device of this name, by default the first. Raises NotFound unless the name fits exactly one."""
    devices = backend.devices()
    names = DeviceNames(devices)
    found = devices[:1] if named is None else names.find(named)
    if len(found) != 1:
        what = f"`{named}` may be several devices" if found else f"There is no device `{named}` here"
        raise NotFound(
            f"{what}; there are {', '.join(f'{names.of(one.id)} ({one.id})' for one in devices)}.",
            fix="Name one by its index, its name or its UUID: 3, gpu3, GPU-01234567.",
        )
    device, placement = found[0], backend.placement([found[0].id])
    others = [one for one in devices if one.id != device.id]
    spare = backend.placement([others[0].id]).cores if placement.cores is not None and others else None
    return MeasuringDevice(device, placement, spare)


def _sharing(target: MeasuringDevice, asked: str | None) -> str:
    if PIPES in target.placement.env:
        return MPS
    if asked == MPS:
        raise BadInput(
            f"{label(target.device)} can only be shared by time-slicing.",
            fix="Leave out --sharing, or name a whole GPU.",
        )
    if target.device.sharing == MPS:
        raise BadInput(
            f"{label(target.device)} is under an MPS server that is not ours.",
            fix="End it (nvidia-cuda-mps-control) first.",
        )
    return TIME_SLICING
