"""Reclassify how an attempt ended by what the host knows beyond the shim: the driver's errors, and who used up the memory.

The file `xid` in the attempt's folder has a line "number wall_time" for each error that the driver reported on the attempt's
devices while it ran.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gpuq.adapters.nvml.faults import FATAL
from gpuq.core.state.attempt import AttemptId, Ending, MemoryCause
from gpuq.home import read_regular
from gpuq_workers.attempts import EndFile, OrderFile
from gpuq_workers.measuring.sample import Sample

# XIDs that end a program through no fault of its own: those that leave the device unfit for work, and 94, which ends the
# programs whose memory was hit and leaves the device well. All others are the program's own fault, or end no program (NVIDIA's
# XID catalogue, docs.nvidia.com/deploy/xid-errors).
DEVICE_FAULTS: Mapping[int, str] = {**FATAL, 94: "a contained memory error"}
# An error ends the program at once, or when a call that hangs times out. The driver uses the same clock as we do.
_BEFORE_S, _AFTER_S = 60.0, 5.0
_FAILURES = frozenset({Ending.EXITED, Ending.KILLED, Ending.DRIVER_ERROR})
_ASKED = re.compile(r"(?:[Tt]ried to allocate|[Tt]rying to allocate|allocating) ([\d.,]+)\s?(bytes|B|[KMGT]i?B)\b")
_UNITS = {"bytes": 0, "B": 0, "K": 1, "M": 2, "G": 3, "T": 4}


@dataclass(frozen=True)
class HostObservation:
    """The latest sample of this host, and the bytes promised to each attempt on each of its devices."""

    sample: Sample
    promised: Mapping[AttemptId, int]


@dataclass(frozen=True)
class ClassifiedExit:
    """An end as it is reported. `unwell`: the driver did not answer for one of its devices, although it reported no XID."""

    ending: Ending
    reason: str
    memory_cause: MemoryCause | None = None
    unwell: bool = False


def classify_exit(
    end: EndFile, attempt: AttemptId, order: OrderFile | None, folder: Path, seen: HostObservation | None
) -> ClassifiedExit:
    """The end as it is reported: the shim's, unless the driver's errors or the latest sample explain it better.

    A device failure that only the program's output speaks of names the ending, and does not make the devices unwell: any job can
    print such a line. Never raises for what it finds in the folder.
    """
    silent = _silent_devices(order, seen) if end.exit_code != 0 else []
    if end.ending in _FAILURES and end.exit_code != 0:
        # The driver's own report outweighs what the program printed about it; a device that fell silent comes next.
        since, until = end.at - _BEFORE_S, end.at + _AFTER_S
        faults = [xid for xid, at in read_xids(folder) if xid in DEVICE_FAULTS and since <= at <= until]
        if faults:
            reason = f"the driver reported XID {faults[-1]} ({DEVICE_FAULTS[faults[-1]]}); {end.reason}"
            return ClassifiedExit(Ending.DEVICE_FAILED, reason[:600])
        if silent:
            reason = f"the driver did not answer for {', '.join(silent)}; {end.reason}"
            return ClassifiedExit(Ending.DEVICE_FAILED, reason[:600], unwell=True)
    on_cores = order is not None and order.cores is not None
    if end.ending is Ending.OUT_OF_MEMORY or (end.ending is Ending.HOST_OUT_OF_MEMORY and on_cores):
        cause = _memory_cause(end, attempt, order, seen)
        explanation = "" if cause is None else f"; {cause}"
        return ClassifiedExit(end.ending, f"{end.reason}{explanation}", cause)
    return ClassifiedExit(end.ending, end.reason, unwell=end.ending is Ending.DEVICE_FAILED and bool(silent))


def read_xids(folder: Path) -> list[tuple[int, float]]:
    """(XID, wall time) of each error in the folder's file; malformed lines are skipped."""
    found = []
    with suppress(OSError):
        for line in read_regular(folder / "xid").decode(errors="replace").splitlines():
            with suppress(ValueError):
                number, at = line.split()[:2]
                found.append((int(number), float(at)))
    return found


def _silent_devices(order: OrderFile | None, seen: HostObservation | None) -> list[str]:
    """The attempt's GPUs without a reading in the latest sample."""
    if order is None or seen is None:
        return []
    known = {device.id for device in seen.sample.devices if device.backend == "nvml"}
    read = dict(seen.sample.readings)
    return [device for device in order.devices if device in known and device not in read]


def _memory_cause(
    end: EndFile, attempt: AttemptId, order: OrderFile | None, seen: HostObservation | None
) -> MemoryCause | None:
    """Who used up the device's memory: the attempt furthest beyond its promise, the allocation that failed included.

    Foreign processes if no attempt is beyond its promise and they hold memory that was promised. None where readings do not tell.
    """
    if order is None or seen is None or attempt not in seen.promised:
        return None
    used = {row.attempt: row.memory_bytes for row in seen.sample.residents}
    excess = {one: (used.get(one) or 0) - promise for one, promise in seen.promised.items()}
    excess[attempt] += asked_bytes(end.reason)
    worst = max(excess, key=lambda one: excess[one])
    if excess[worst] > 0:
        return MemoryCause.OWN if worst == attempt else MemoryCause.PARTNER
    readings = dict(seen.sample.readings)
    promised = sum(seen.promised.values())
    foreign_holds_promised = any(
        (readings[device.id].foreign_memory or 0) > max(0, device.total_memory - promised)
        for device in seen.sample.devices
        if device.id in order.devices and device.id in readings
    )
    return MemoryCause.FOREIGN if foreign_holds_promised else None


def asked_bytes(reason: str) -> int:
    """The bytes of the allocation that failed, where the message names them; else 0."""
    found = _ASKED.search(reason)
    with suppress(ValueError, OverflowError):
        if found is not None:
            number, unit = found.groups()
            return int(float(number.replace(",", "")) * 1024 ** _UNITS[unit if unit in _UNITS else unit[0]])
    return 0
