"""On which device a campaign measures, and how its two jobs share it.

Arrives: the settings and what the person asked for. Leaves: an open backend, a `Place` and the way of sharing. A CPU device
is a core (`--cores`: so many), both jobs of a pair are pinned to it, and the kernel slices its time; the second job of a pair
may warm up on the next device's cores. Raises BadInput or NotFound where there is no such device.
"""

from __future__ import annotations

import os
from dataclasses import replace

from gpuq.adapters.devices import Backend
from gpuq.campaign.run import Place
from gpuq.core.device import Device
from gpuq.errors import BadInput, NotFound
from gpuq.learn.measured import SHARING_MODES
from gpuq.settings import Settings
from workers.sample import open_backend

TIME_SLICING, MPS = SHARING_MODES


def open_place(settings: Settings, backend: str, cores: int, named: str | None) -> tuple[Backend, Place]:
    """The device of that id or number, the first without one, opened."""
    count = len(os.sched_getaffinity(0)) // cores
    if count < 1:
        raise BadInput(f"--cores {cores} is more than this process may use.", fix="Ask for fewer.")
    cpu = replace(settings.devices, backend=backend, cpu_count=count, cpu_cores=cores)
    opened = open_backend(replace(settings, devices=cpu))
    try:
        device = _find(opened, named)
        placement = opened.placement([device.id])
        others = [one for one in opened.devices() if one.id != device.id]
        spare = opened.placement([others[0].id]).cores if placement.cores is not None and others else None
        return opened, Place(device, placement, spare)
    except BaseException:
        opened.close()
        raise


def sharing_of(place: Place, asked: str | None) -> str:
    """The way of sharing that is measured, as the tables name it. Raises BadInput for one that cannot be had here."""
    if asked == MPS and place.placement.cores is not None:
        raise BadInput("CPU cores are shared by time-slicing only.", fix="Leave out --sharing, or name a GPU.")
    real = place.device.sharing or TIME_SLICING
    if asked is not None and asked != real and place.device.sharing is not None:
        raise BadInput(
            f"{place.device.id} is shared by {real} now, not by {asked}.",
            fix="Start or stop the MPS control daemon (nvidia-cuda-mps-control) first, and name the way it is shared.",
        )
    return asked or real


def _find(backend: Backend, named: str | None) -> Device:
    devices = backend.devices()
    if named is None:
        return devices[0]
    found = [one for index, one in enumerate(devices) if named in (one.id, str(index))]
    if not found:
        raise NotFound(
            f"There is no device {named} here; there are {', '.join(one.id for one in devices)}.",
            fix="Name one of them, or its number from 0 on.",
        )
    return found[0]
