"""XID errors: the driver's reports that something went wrong on a GPU, and whether the GPU is fit for new jobs after them.

The meaning of each number is in NVIDIA's XID catalogue (docs.nvidia.com/deploy/xid-errors). Most are a program's own fault, end
that program and leave the GPU well: 13, 31, 43, 45, 94 and many more. Those in `FATAL` are the ones for which the catalogue
says to reset the GPU or restart the machine; such a GPU gets no new jobs.

It is well again once the driver says so. Newer drivers report which recovery they want (`NVML_FI_DEV_GET_GPU_RECOVERY_ACTION`);
"none", a minute after the last such error, ends it. With older drivers a restart of the worker service, after the reset, ends it.
If a driver wants a recovery when the service starts, the GPU is unwell from the start.
"""

from __future__ import annotations

import ctypes
import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pynvml

from gpuq.adapters.nvml.calls import ask_or_none

_log = logging.getLogger(__name__)

# Immediate action RESET_GPU or RESTART_BM in the catalogue, as of R575; the workflows for 48 and 74 end in a reset too.
FATAL: Mapping[int, str] = {
    46: "it stopped processing",
    48: "an ECC error in memory that cannot be corrected",
    62: "a halt of its internal microcontroller",
    64: "memory rows that could not be replaced",
    74: "an NVLink error",
    79: "it has fallen off the bus",
    95: "an uncontained memory error",
    109: "a context switch that timed out",
    110: "a security fault",
    119: "its system processor does not answer",
    120: "an error of its system processor",
    136: "an NVLink that could not be trained",
    140: "an ECC error that was not recovered",
    143: "it could not be initialised",
    155: "an NVLink error found by software",
    156: "memory that was taken out of use",
    158: "a fatal timeout",
}
_RECOVERY_CHANGED = 154
_RECOVERIES = {1: "a reset", 2: "a restart of the machine", 3: "its peer traffic drained", 4: "to be drained and reset"}
RECOVERY_FIELD = getattr(pynvml, "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION", 230)
_WELL_AFTER_S = 60.0
_MOST_EVENTS = 64
_NO_INSTANCE = 0xFFFFFFFF


@dataclass(slots=True)
class Health:
    """One device's errors, and whether it is fit for new jobs. `handle` is the whole GPU's; `watched`: its driver reports
    errors. Times are `time.monotonic`."""

    handle: object
    watched: bool = False
    xids: Counter[int] = field(default_factory=Counter)
    _why: str | None = None
    _since: float | None = None

    def read_recovery(self, now: float) -> None:
        """The device is unwell from `now` on if its driver wants a recovery."""
        action = recovery_action(self.handle)
        if action:
            self._why, self._since = f"its driver wants {_RECOVERIES.get(action, 'a recovery')}", now

    def note(self, xid: int, now: float) -> None:
        """Count one more error of this number."""
        self.xids[xid] += 1
        if xid in FATAL:
            self._why, self._since = f"XID {xid}: {FATAL[xid]}", now
        elif xid == _RECOVERY_CHANGED:
            self.read_recovery(now)

    def unwell(self, now: float) -> str | None:
        """Why the device gets no new jobs; None if it is well."""
        if self._why is None or self._since is None:
            return None
        if now - self._since >= _WELL_AFTER_S and recovery_action(self.handle) == 0:
            self._why = self._since = None
        return self._why

    def counts(self) -> tuple[tuple[int, int], ...] | None:
        """(XID, count) of each number; None if the driver does not report errors."""
        return tuple(sorted(self.xids.items())) if self.watched else None


def recovery_action(handle: object) -> int | None:
    """The recovery that the driver wants, 0 for none; None from a driver that does not say."""
    values = ask_or_none(pynvml.nvmlDeviceGetFieldValues, handle, [RECOVERY_FIELD])
    if values is None or values[0].nvmlReturn != pynvml.NVML_SUCCESS:
        return None
    return int(values[0].value.uiVal)


class Events:
    """The driver's queue of errors of all registered GPUs."""

    def __init__(self) -> None:
        self._set = ask_or_none(pynvml.nvmlEventSetCreate)
        self._names: dict[str, int] = {}

    def register(self, handle: object) -> bool:
        """Report this whole GPU's errors from now on; returns whether the driver can."""
        wanted = pynvml.nvmlEventTypeXidCriticalError
        supported = ask_or_none(pynvml.nvmlDeviceGetSupportedEventTypes, handle)
        if self._set is None or supported is None or not supported & wanted:
            return False
        try:
            pynvml.nvmlDeviceRegisterEvents(handle, wanted, self._set)
        except pynvml.NVMLError as error:
            _log.info("the driver does not report errors of a GPU: %s", error)
            return False
        self._names[pynvml.nvmlDeviceGetUUID(handle)] = address(handle)
        return True

    def take(self) -> Iterator[tuple[int, int, int | None]]:
        """(GPU as its `address`, XID, MIG instance or None) of each error since the last call."""
        for _ in range(_MOST_EVENTS if self._set is not None else 0):
            event = ask_or_none(pynvml.nvmlEventSetWait_v2, self._set, 0)  # does not block
            if event is None:  # most often a timeout
                return
            if event.eventType == pynvml.nvmlEventTypeXidCriticalError:
                instance = None if event.gpuInstanceId == _NO_INSTANCE else int(event.gpuInstanceId)
                yield self._whole(event.device), int(event.eventData), instance

    def _whole(self, handle: Any) -> int:
        """The address of our handle of the event's GPU, which may differ from the event's. A lost GPU has no UUID any more."""
        found = address(handle)
        if found in self._names.values():
            return found
        return self._names.get(ask_or_none(pynvml.nvmlDeviceGetUUID, handle) or "", found)

    def close(self) -> None:
        """Free the queue."""
        if self._set is not None:
            ask_or_none(pynvml.nvmlEventSetFree, self._set)
            self._set = None


def address(handle: Any) -> int:
    """A handle as a number. The driver gives each GPU one handle for as long as it is loaded."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
