"""Checks that the device is free before a campaign measures on it: figures taken beside other load mean nothing.

Busy means: a running gpuq has jobs on the device or its cores, foreign processes use the GPU, or a process keeps a core of this
machine busy.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import psutil
from gpuq_workers.attempts import UnreadableFile, folders_in

from gpuq.adapters.devices import Backend
from gpuq.adapters.process import is_alive
from gpuq.core.state.device import Device
from gpuq.errors import Conflict
from gpuq.home import Home

MOST_FOREIGN_PCT = 10.0
_MOST_FOREIGN_BYTES = 256 * 2**20
_NAMED = 4
_FIX = "Wait for it or end it; --busy-anyway measures beside it, and the figures will say less."


def check_free(
    backend: Backend, device: Device, home: Home, look_s: float = 1.0, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Raises Conflict, which names what is there, where something else uses the device or the machine of a CPU device."""
    cores = backend.placement([device.id]).cores
    jobs = residents(home, device, cores)
    if jobs:
        named = f"job{'s' * (len(jobs) > 1)} {', '.join(map(str, jobs))}"
        raise Conflict(f"gpuq runs {named} on {device.id} now.", fix=_FIX)
    if cores is not None:
        busy = busy_processes(look_s, sleep)
        if busy:
            raise Conflict(f"This machine is busy: {', '.join(busy[:_NAMED])}.", fix=_FIX)
        return
    backend.read(time.time(), ())  # use is measured between two readings
    sleep(look_s)
    reading = backend.read(time.time(), ()).readings.get(device.id)
    if reading is None:
        raise Conflict(f"{device.id} does not answer.", fix="See what `nvidia-smi` says of it.")
    held, busy_pct = reading.foreign_memory or 0, reading.foreign_utilization_pct or 0.0
    if held > _MOST_FOREIGN_BYTES or busy_pct > MOST_FOREIGN_PCT:
        raise Conflict(
            f"Other processes hold {held / 2**20:.0f} MiB of {device.id} and keep {busy_pct:.0f}% of it busy.",
            fix=f"`nvidia-smi` lists them. {_FIX}",
        )


def residents(home: Home, device: Device, cores: tuple[int, ...] | None) -> list[int]:
    """The ids of this home's jobs that now run on this device or on one of these cores, sorted."""
    if not home.attempts.is_dir():
        return []
    found = []
    for folder in folders_in(home.attempts):
        try:
            order, started, end = folder.order(), folder.started(), folder.ended()
        except UnreadableFile:
            continue
        if order is None or started is None or end is not None or not is_alive(started.shim):
            continue
        if device.id in order.devices or set(order.cores or ()) & set(cores or ()):
            found.append(order.job)
    return sorted(found)


def busy_processes(
    look_s: float, sleep: Callable[[float], None], more_than_pct: float = MOST_FOREIGN_PCT
) -> tuple[str, ...]:
    """Descriptions of the other processes that used more than this share of a core in `look_s` seconds, busiest first."""
    before, began = _processor_times(), time.monotonic()
    sleep(look_s)
    passed = time.monotonic() - began
    shares = [
        (100 * (seconds - before[key][0]) / passed, name, key[0])
        for key, (seconds, name) in _processor_times().items()
        if key in before
    ]
    busy = sorted((one for one in shares if one[0] > more_than_pct), reverse=True)
    return tuple(f"process {pid} ({name}) takes {share:.0f}% of a core" for share, name, pid in busy)


def _processor_times() -> dict[tuple[int, float], tuple[float, str]]:
    """(pid, start time) -> (CPU seconds, name) of all processes but this one."""
    found = {}
    for process in psutil.process_iter(["pid", "create_time", "cpu_times", "name"]):
        about = process.info
        if about["cpu_times"] is not None and about["pid"] != os.getpid():
            times = about["cpu_times"]
            found[about["pid"], about["create_time"]] = (times.user + times.system, about["name"] or "?")
    return found
