"""What this host knows of an end beyond the shim's own word: the driver's faults, and who used up the device's memory.

The shim's word, the attempt's folder and the last readings arrive; the ending as it is reported leaves. `xid` in the folder has a
line "number wall_time" for each fault that the driver reported on the attempt's devices while it ran.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gpuq.adapters.nvml.faults import FATAL
from gpuq.core.state.attempt import AttemptId, Ending, MemoryCause
from gpuq.core.state.device import Device
from gpuq_workers.attempts import EndFile, OrderFile
from gpuq_workers.measuring.sample import Sample

# XIDs after which the program could not have gone on, whatever it did: those that leave the device unfit, and 94, which ends the
# programs whose memory was hit and leaves the device well. All others are the program's own, or end none (NVIDIA's XID catalogue,
# docs.nvidia.com/deploy/xid-errors).
DEVICE_FAULTS: Mapping[int, str] = {**FATAL, 94: "a contained memory error"}
# A fault ends the program at once, or when a call that hangs is given up. The driver's clock and ours are the same.
_BEFORE_S, _AFTER_S = 60.0, 5.0
_FAILURES = frozenset({Ending.EXITED, Ending.KILLED, Ending.DRIVER_ERROR})
_ASKED = re.compile(r"(?:[Tt]ried to allocate|[Tt]rying to allocate|allocating) ([\d.,]+)\s?(bytes|B|[KMGT]i?B)\b")
_UNITS = {"bytes": 0, "B": 0, "K": 1, "M": 2, "G": 3, "T": 4}


@dataclass(frozen=True)
class HostObservation:
    """The last look at this host, and the memory promised to each attempt on each of its devices, in bytes."""

    devices: Sequence[Device]
    sample: Sample
    promised: Mapping[AttemptId, int]


@dataclass(frozen=True)
class ClassifiedExit:
    """An end as it is reported. `unwell`: its devices are said to have failed, and the driver's XIDs do not say it themselves."""

    ending: Ending
    reason: str
    memory_cause: MemoryCause | None = None
    unwell: bool = False


def classify_exit(
    end: EndFile, attempt: AttemptId, order: OrderFile | None, folder: Path, seen: HostObservation | None
) -> ClassifiedExit:
    """The end as it is reported. Never raises for what it finds in the folder."""
    fault = device_fault(end, read_xids(folder))
    if fault is not None:
        return ClassifiedExit(Ending.DEVICE_FAILED, f"the driver reported {fault}; {end.reason}"[:600])
    silent = silent_devices(end, order, seen)
    if silent:
        reason = f"the driver did not answer for {', '.join(silent)}; {end.reason}"
        return ClassifiedExit(Ending.DEVICE_FAILED, reason[:600], unwell=True)
    on_cores = order is not None and order.cores is not None
    if end.ending is Ending.OUT_OF_MEMORY or (end.ending is Ending.HOST_OUT_OF_MEMORY and on_cores):
        cause = memory_cause(end, attempt, order, seen)
        said = "" if cause is None else f"; {cause}"
        return ClassifiedExit(end.ending, f"{end.reason}{said}", cause)
    return ClassifiedExit(end.ending, end.reason, unwell=end.ending is Ending.DEVICE_FAILED)


def read_xids(folder: Path) -> list[tuple[int, float]]:
    """(XID, wall time) of each fault; lines that make no sense are passed over."""
    found = []
    with suppress(OSError, UnicodeDecodeError):
        for line in (folder / "xid").read_text().splitlines():
            with suppress(ValueError):
                number, at = line.split()[:2]
                found.append((int(number), float(at)))
    return found


def device_fault(end: EndFile, xids: Iterable[tuple[int, float]]) -> str | None:
    """The fault that ended it, in words; None where it ended well, was ended by us, or the driver reported none in that time."""
    if end.ending not in _FAILURES or end.exit_code == 0:
        return None
    faults = [xid for xid, at in xids if xid in DEVICE_FAULTS and end.at - _BEFORE_S <= at <= end.at + _AFTER_S]
    return f"XID {faults[-1]} ({DEVICE_FAULTS[faults[-1]]})" if faults else None


def silent_devices(end: EndFile, order: OrderFile | None, seen: HostObservation | None) -> list[str]:
    """Its devices that the latest look got no reading from, if it failed by itself."""
    if end.ending not in _FAILURES or end.exit_code == 0 or order is None or seen is None:
        return []
    known, read = {device.id for device in seen.devices}, dict(seen.sample.readings)
    return [device for device in order.devices if device in known and device not in read]


def memory_cause(
    end: EndFile, attempt: AttemptId, order: OrderFile | None, seen: HostObservation | None
) -> MemoryCause | None:
    """Whose use left the device without memory: who is furthest beyond the promise, with what was asked for last; else foreign
    processes, if they hold what was promised. None where no reading tells.
    """
    if order is None or seen is None or attempt not in seen.promised:
        return None
    used = {row.attempt: row.memory_bytes for row in seen.sample.residents}
    over = {one: (used.get(one) or 0) - promised for one, promised in seen.promised.items()}
    over[attempt] += asked_bytes(end.reason)
    worst = max(over, key=lambda one: over[one])
    if over[worst] > 0:
        return MemoryCause.OWN if worst == attempt else MemoryCause.PARTNER
    return MemoryCause.FOREIGN if _foreign_holds_promised(order, seen) else None


def asked_bytes(reason: str) -> int:
    """The bytes that could not be had, where the message names them; else 0."""
    found = _ASKED.search(reason)
    with suppress(ValueError, OverflowError):
        if found is not None:
            number, unit = found.groups()
            return int(float(number.replace(",", "")) * 1024 ** _UNITS[unit if unit in _UNITS else unit[0]])
    return 0


def _foreign_holds_promised(order: OrderFile, seen: HostObservation) -> bool:
    readings = dict(seen.sample.readings)
    promised = sum(seen.promised.values())
    theirs = [
        (device, readings[device.id]) for device in seen.devices if device.id in order.devices and device.id in readings
    ]
    return any((reading.foreign_memory or 0) > max(0, device.total_memory - promised) for device, reading in theirs)
