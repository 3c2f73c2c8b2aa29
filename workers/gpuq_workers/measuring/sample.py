"""Reads every device and every resident of this host once a second, and sums it up per attempt.

A look gives a `Sample` for the report; an attempt that ends gives a `Measurement`. Each attempt's state is kept in
`measure.json` in its folder. Errors that the driver reports of its device while it runs become lines of the file `xid` (`NUMBER
UNIX_TIME`). A reading that cannot be taken is None. A folder that cannot be written only costs the measurement after a restart.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from gpuq.adapters.devices import Backend, Resident, Snapshot, Usage
from gpuq.core.measuring.measurement import Measurement
from gpuq.core.measuring.slowdown import rates
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.device import DeviceId, Reading
from gpuq.core.state.device_names import label
from gpuq.core.state.events import ResidentReport
from gpuq.home import write_private
from gpuq_workers.attempts import AttemptFolder
from gpuq_workers.measuring.foreign import foreign_load
from gpuq_workers.measuring.measure import WINDOW_S, Look, Meter, State
from gpuq_workers.measuring.prealloc import asked_by
from gpuq_workers.measuring.progress import read_progress, why_not_counted

_KEEP_EVERY_S = 5.0
_log = logging.getLogger("gpuq.sample")


@dataclass(frozen=True, slots=True)
class WatchedResident:
    """An attempt that runs here: the root of its tree (the shim), its devices and its folder. `started_at` is wall time."""

    attempt: AttemptId
    root_pid: int
    devices: tuple[DeviceId, ...]
    folder: Path
    started_at: float | None
    blink: bool = False
    """Whether its submitter allowed pauses for a moment (`--blink`); a pair is measured so only if both did."""


@dataclass(frozen=True, slots=True)
class AloneSteps:
    """Steps that an attempt made within so many seconds in which its partners, all that there were, stood still."""

    attempt: AttemptId
    partners: tuple[AttemptId, ...]
    steps: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at this host: the fields of `HostReported` that come from it."""

    readings: tuple[tuple[DeviceId, Reading], ...]
    residents: tuple[ResidentReport, ...]


@dataclass(slots=True)
class _Watched:
    folder: Path
    meter: Meter
    kept_at: float
    devices: tuple[DeviceId, ...] = ()


class _Kept(msgspec.Struct):
    """`measure.json`."""

    measurement: Measurement
    state: State


class Sampler:
    """Takes the looks, and keeps each attempt's meter."""

    def __init__(
        self, backend: Backend, clock: Callable[[], float] = time.monotonic, window_s: float = WINDOW_S
    ) -> None:
        self._backend = backend
        self._clock = clock
        self._window_s = window_s
        self._watched: dict[AttemptId, _Watched] = {}

    def sample(self, now: float, residents: Sequence[WatchedResident]) -> Sample:
        """One look; `now` is wall time. Never raises for a device or a job that cannot be read."""
        for resident in residents:
            self._watch(resident)
        self._note_faults(now)
        memory = {device.id: device.total_memory for device in self._backend.devices() if device.backend == "nvml"}
        snapshot = self._backend.read(now, [Resident(r.attempt, r.root_pid, r.devices) for r in residents])
        reports = []
        for resident in residents:
            watched = self._watch(resident)
            look = self._look(now, resident, residents, snapshot, memory)
            watched.meter.look(look)
            self._keep(watched, look.clock)
            reports.append(_report(resident, look, watched.meter))
        return Sample(tuple(snapshot.readings.items()), tuple(reports))

    def pause(self, attempts: Sequence[AttemptId]) -> None:
        """One of these is about to be paused: until `go_on` nothing that they do counts."""
        for watched in self._of(attempts):
            watched.meter.pause()

    def go_on(self, attempts: Sequence[AttemptId], measured: AloneSteps | None) -> None:
        """The pause is over; `measured` is what was measured in it."""
        for watched in self._of(attempts):
            watched.meter.go_on()
        if measured is not None:
            for watched in self._of([measured.attempt]):
                watched.meter.add_blink(measured.partners, measured.steps, measured.seconds)

    def note(self, attempt: AttemptId, why_not: str) -> None:
        """Note why no partner is paused to measure this attempt. Ignored once one was."""
        for watched in self._of([attempt]):
            if not any(segment.blink for segment in watched.meter.state.segments):
                watched.meter.state.blink = f"never so far, since {why_not}"

    def finish(self, attempt: AttemptId, folder: Path | None = None) -> Measurement:
        """The measurement of an attempt that is over. `folder` serves where it ended before it was ever sampled here."""
        self._note_faults(time.time())  # what ended it may have been reported since the last look
        watched = self._watched.pop(attempt, None)
        if watched is None:
            if folder is None:
                return Measurement()
            watched = _Watched(folder, Meter(_read_state(folder), self._window_s), 0.0)
        counter = watched.folder / "progress"
        measurement = watched.meter.finish(read_progress(counter))
        _write(watched)
        return measurement if measurement.steps else replace(measurement, not_counted=why_not_counted(counter))

    def close(self) -> None:
        """Write the state of every attempt, and close the driver."""
        for watched in self._watched.values():
            _write(watched)
        self._backend.close()

    def _look(
        self,
        now: float,
        resident: WatchedResident,
        residents: Sequence[WatchedResident],
        snapshot: Snapshot,
        memory: Mapping[DeviceId, int],
    ) -> Look:
        usage = snapshot.usage.get(resident.attempt, Usage(None, None))
        readings = [snapshot.readings[device] for device in resident.devices if device in snapshot.readings]
        busy = [reading.utilization_pct for reading in readings]
        load, held_back = foreign_load(usage, readings, on_gpu=any(device in memory for device in resident.devices))
        return Look(
            at=now,
            clock=self._clock(),
            memory_bytes=usage.memory_bytes,
            utilization_pct=usage.utilization_pct,
            busy_pct=max((value for value in busy if value is not None), default=None),
            partners=tuple(sorted(partner.attempt for partner in partners_of(resident, residents))),
            progress=read_progress(resident.folder / "progress"),
            energy_joules=usage.energy_joules,
            idle_joules=usage.idle_joules,
            total_memory_bytes=min((memory[d] for d in resident.devices if d in memory), default=None),
            memory_is_estimate=usage.memory_is_estimate,
            foreign_load=load,
            held_back=held_back,
        )

    def _of(self, attempts: Sequence[AttemptId]) -> list[_Watched]:
        return [self._watched[attempt] for attempt in attempts if attempt in self._watched]

    def _watch(self, resident: WatchedResident) -> _Watched:
        if resident.attempt not in self._watched:
            order = AttemptFolder(resident.folder, resident.attempt).order()
            asked = None if order is None else asked_by(order.env)
            meter = Meter(_read_state(resident.folder), self._window_s, asked)
            self._watched[resident.attempt] = _Watched(resident.folder, meter, self._clock(), resident.devices)
        return self._watched[resident.attempt]

    def _note_faults(self, at: float) -> None:
        faults = self._backend.faults()
        labels = {device.id: label(device) for device in self._backend.devices()} if faults else {}
        for fault in faults:
            _log.warning("%s: the driver reports XID %d", labels.get(fault.device, fault.device), fault.xid)
            for watched in self._watched.values():
                if fault.device in watched.devices:
                    _append(watched.folder / "xid", f"{fault.xid} {at:.3f}\n")

    def _keep(self, watched: _Watched, clock: float) -> None:
        if clock - watched.kept_at >= _KEEP_EVERY_S:
            watched.kept_at = clock
            _write(watched)


def partners_of(resident: WatchedResident, residents: Sequence[WatchedResident]) -> list[WatchedResident]:
    """The other residents that share a device with this one."""
    own = set(resident.devices)
    return [other for other in residents if other.attempt != resident.attempt and own.intersection(other.devices)]


def read_measurement(folder: Path) -> Measurement | None:
    """The measurement that was last written into `folder`; None without a readable one."""
    kept = _read_kept(folder)
    return None if kept is None else kept.measurement


def _report(resident: WatchedResident, look: Look, meter: Meter) -> ResidentReport:
    return ResidentReport(
        attempt=resident.attempt,
        memory_bytes=look.memory_bytes,
        utilization_pct=look.utilization_pct,
        steps=None if look.progress is None else look.progress.steps,
        rate=meter.rate(),
        started_at=resident.started_at,
        blink=meter.state.blink,
        not_counted=why_not_counted(resident.folder / "progress") if look.progress is None else None,
        step_processes=None if look.progress is None else look.progress.processes,
        energy_joules=meter.state.energy_joules,
        rates=rates(meter.measurement(), look.partners) if look.partners else None,
    )


def _read_state(folder: Path) -> State | None:
    kept = _read_kept(folder)
    return None if kept is None else kept.state


def _read_kept(folder: Path) -> _Kept | None:
    try:
        return msgspec.json.decode((folder / "measure.json").read_bytes(), type=_Kept)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        _log.warning("discarding the unreadable measurement in %s: %s", folder, error)
        return None


def _append(path: Path, line: str) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "a") as file:
            file.write(line)
    except OSError as error:
        _log.warning("%s cannot be written: %s", path, error.strerror)


def _write(watched: _Watched) -> None:
    path = watched.folder / "measure.json"
    body = msgspec.json.encode(_Kept(watched.meter.measurement(), watched.meter.state))
    try:
        # Not forced to the disk: after a crash of the machine the job is gone too.
        write_private(path, body, durable=False)
    except OSError as error:
        _log.warning("%s cannot be written: %s", path, error.strerror)
