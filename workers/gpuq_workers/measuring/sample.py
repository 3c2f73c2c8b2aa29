"""Sample every device and every resident of this host once a second, and add the samples up per attempt.

`Sampler.sample` gives a `Sample` for the report, `Sampler.finish` the `Measurement` of an attempt that ended. Each attempt's
state is saved as `measure.json` in its folder; errors that the driver reports of its device are lines of the file `xid`
(`NUMBER UNIX_TIME`). A reading that cannot be taken is None. If a folder cannot be written, a restart loses the measurement and
nothing else.
"""

from __future__ import annotations

import logging
import os
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from gpuq.adapters.devices import Backend, ResidentProcess, ResidentUsage, Snapshot
from gpuq.core.measuring.measurement import Measurement
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.device import Device, DeviceId, Reading
from gpuq.core.state.device_names import label
from gpuq.core.state.events import ResidentReport
from gpuq.home import open_regular, read_regular, write_private
from gpuq.messages.launch import NOT_JSON
from gpuq.settings import Learning
from gpuq_workers.attempts import AttemptFolder, PauseRecord, UnreadableFile, counter_path
from gpuq_workers.measuring.measure import WINDOW_S, Look, Meter, MeterState
from gpuq_workers.measuring.prealloc import requested_share
from gpuq_workers.measuring.progress import Progress, read_counter
from gpuq_workers.shim.record import VERSION

_SAVE_EVERY_S, _SAVED_GROWTH = 15.0, 1.1
USED_FROM_PCT = 1.0
"""A driver counts in whole percent, so a device that is used at all shows one."""
# 200 segments and six histograms of 1,000 bins.
_LARGEST_SAVED_BYTES = 2**20
_FINISHED_KEPT = 64
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WatchedResident(ResidentProcess):
    """An attempt that runs here, with its folder. `started_at` is wall time."""

    folder: Path
    started_at: float | None
    blink: bool = False
    """Submitted with `--blink`: it may be paused to measure its partner, and is measured while its partner is paused."""
    borrows: bool = False
    """Submitted with `--lend-cores`: idle cores may be lent to it."""
    pauses: PauseRecord | None = None
    """Its pauses so far; None where it never stood still."""

    @property
    def is_paused(self) -> bool:
        """Whether it stands still so that another runs."""
        return self.pauses is not None and self.pauses.since is not None


@dataclass(frozen=True, slots=True)
class AloneSteps:
    """Steps of an attempt within `seconds` in which all its partners stood still."""

    attempt: AttemptId
    partners: tuple[AttemptId, ...]
    steps: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at this host; the fields are those of `HostReported`."""

    devices: tuple[Device, ...]
    readings: tuple[tuple[DeviceId, Reading], ...]
    residents: tuple[ResidentReport, ...]


@dataclass(slots=True)
class _Measured:
    folder: Path
    counter: Path
    meter: Meter
    saved_at: float
    devices: tuple[DeviceId, ...] = ()
    saved_peak_bytes: int = 0
    used_at: float | None = None
    is_paused: bool = False

    def follow_pause(self, is_paused: bool) -> None:
        """Count nothing while the job stands still."""
        if is_paused is not self.is_paused:
            self.is_paused = is_paused
            (self.meter.pause if is_paused else self.meter.resume)()

    def save_if_due(self, clock: float) -> None:
        """Save now and then, and the first memory and its growth at once: another process may have to go on from here."""
        peak = self.meter.state.peak_memory_bytes or 0
        if clock - self.saved_at >= _SAVE_EVERY_S or peak > _SAVED_GROWTH * self.saved_peak_bytes:
            self.saved_at, self.saved_peak_bytes = clock, peak
            _write(self)

    def idle_s(self, look: Look) -> float | None:
        """For how long it has used less than USED_FROM_PCT of its devices; None where its use is not known."""
        if look.usage.utilization_pct is None:
            self.used_at = None
            return None
        if self.used_at is None or self.is_paused or look.usage.utilization_pct >= USED_FROM_PCT:
            self.used_at = look.clock
        return look.clock - self.used_at


class _Saved(msgspec.Struct):
    """`measure.json`. Only the state is read again; the measurement is for people, and for worker services of an earlier gpuq."""

    measurement: Measurement
    state: MeterState
    version: int = VERSION


class Sampler:
    """Takes samples, and keeps a `Meter` for each attempt."""

    def __init__(
        self,
        backend: Backend,
        clock: Callable[[], float] = time.monotonic,
        window_s: float = WINDOW_S,
        level_after_s: float = Learning.level_after_s,
    ) -> None:
        self._backend = backend
        self._clock = clock
        self._window_s = window_s
        self._level_after_s = level_after_s
        self._watched: dict[AttemptId, _Measured] = {}
        self._finished: deque[AttemptId] = deque(maxlen=_FINISHED_KEPT)

    def devices(self) -> tuple[Device, ...]:
        """The devices of this host."""
        return self._backend.devices()

    def sample(self, now: float, residents: Sequence[WatchedResident]) -> Sample:
        """Take one sample; `now` is wall time. Never raises for a device or a job that cannot be read."""
        residents = self._measurable(residents)
        all_watched = [self._watch(resident) for resident in residents]
        self._note_faults(now)
        devices = self._backend.devices()
        memory = {device.id: device.total_memory for device in devices if device.backend == "nvml"}
        snapshot = self._backend.read(now, residents)
        beside: dict[DeviceId, list[AttemptId]] = defaultdict(list)
        for resident in residents:
            if not resident.is_paused:
                for device in resident.devices:
                    beside[device].append(resident.attempt)
        reports = []
        for resident, watched in zip(residents, all_watched, strict=True):
            watched.follow_pause(resident.is_paused)
            progress, why_not_counted = read_counter(watched.counter)
            partners = {one for device in resident.devices for one in beside[device]} - {resident.attempt}
            look = self._look(now, resident, tuple(sorted(partners)), snapshot, memory, progress)
            watched.meter.look(look)
            watched.save_if_due(look.clock)
            meter, peaks, pauses = watched.meter, watched.meter.peaks(), resident.pauses
            reports.append(
                ResidentReport(
                    attempt=resident.attempt,
                    memory_bytes=look.usage.memory_bytes,
                    utilization_pct=look.usage.utilization_pct,
                    steps=None if progress is None else progress.steps,
                    rate=meter.rate(),
                    started_at=resident.started_at,
                    blink=meter.state.blink,
                    not_counted=why_not_counted,
                    step_processes=None if progress is None else progress.processes,
                    energy_joules=meter.state.energy_joules,
                    idle_s=watched.idle_s(look),
                    slowed_s=meter.slowed_s(),
                    peak_memory_bytes=None if peaks.memory_is_bound else peaks.memory_bytes,
                    peak_utilization_pct=peaks.utilization_pct,
                    utilization_is_bound=peaks.utilization_is_bound,
                    level_s=meter.level_s(self._level_after_s) if self._level_after_s else None,
                    paused_s=0.0 if pauses is None else pauses.paused_s(time.monotonic()),
                    not_pausable=None if pauses is None else pauses.why_not,
                    rates=meter.rates(look.partners) if look.partners else None,
                    blinks=meter.blinks(),
                )
            )
        return Sample(devices, tuple(snapshot.readings.items()), tuple(reports))

    def sample_memory(self, residents: Sequence[WatchedResident]) -> None:
        """Add the memory of these residents to their peaks, where the backend reads it between two samples."""
        for resident in self._measurable(residents):
            usage = self._backend.memory(resident)
            if usage is not None:
                self._watch(resident).meter.add_memory(usage)

    def pause(self, attempts: Sequence[AttemptId]) -> None:
        """Count nothing of these attempts until `resume`: one of them is about to be paused."""
        for watched in self._of(attempts):
            watched.meter.pause()

    def resume(self, attempts: Sequence[AttemptId], measured: AloneSteps | None) -> None:
        """Count these attempts again after a pause; `measured` is what was measured in it, if anything."""
        for watched in self._of(attempts):
            watched.meter.resume()
        if measured is not None:
            for watched in self._of([measured.attempt]):
                watched.meter.add_blink(measured.partners, measured.steps, measured.seconds)

    def note(self, attempt: AttemptId, why_not: str) -> None:
        """Record why no partner is paused to measure this attempt; ignored once one was."""
        for watched in self._of([attempt]):
            if not watched.meter.blinks():
                watched.meter.state.blink = f"never so far, since {why_not}"

    def finish(self, attempt: AttemptId, folder: Path | None = None) -> Measurement:
        """The measurement of an attempt that has ended. `folder` is used if this process never sampled it."""
        self._note_faults(time.time())  # the error that ended it may have been reported since the last look
        self._finished.append(attempt)
        watched = self._watched.pop(attempt, None)
        if watched is None:
            return Measurement() if folder is None else saved_measurement(folder)
        measurement = _finished(watched.meter, watched.folder)
        _write(watched)
        return measurement

    def close(self) -> None:
        """Save every attempt's state and close the backend."""
        for watched in self._watched.values():
            _write(watched)
        self._backend.close()

    def _look(
        self,
        now: float,
        resident: WatchedResident,
        partners: tuple[AttemptId, ...],
        snapshot: Snapshot,
        memory: Mapping[DeviceId, int],
        progress: Progress | None,
    ) -> Look:
        readings = [snapshot.readings[device] for device in resident.devices if device in snapshot.readings]
        busy = [reading.utilization_pct for reading in readings]
        usage = snapshot.usage.get(resident.attempt, ResidentUsage(None, None))
        return Look(
            at=now,
            clock=self._clock(),
            usage=usage,
            busy_pct=max((value for value in busy if value is not None), default=None),
            partners=partners,
            progress=progress,
            total_memory_bytes=min((memory[d] for d in resident.devices if d in memory), default=None),
            # Of a driver that shows no processes, 0 only says that the GPU holds no more than before.
            is_absent=usage.memory_bytes == 0 and all(one.processes_visible is not False for one in readings),
        )

    def _measurable(self, residents: Sequence[WatchedResident]) -> Sequence[WatchedResident]:
        """Without those whose end was reported after this list was made: a call may have waited while a driver did not answer.

        Without those on a device that the backend does not have, too: it fails, or the backend was changed under them, and what
        another one reads of their processes is not their use of it.
        """
        here = {device.id for device in self._backend.devices()}
        return [one for one in residents if one.attempt not in self._finished and here.issuperset(one.devices)]

    def _of(self, attempts: Sequence[AttemptId]) -> list[_Measured]:
        return [self._watched[attempt] for attempt in attempts if attempt in self._watched]

    def _watch(self, resident: WatchedResident) -> _Measured:
        if resident.attempt not in self._watched:
            requested = None
            with suppress(UnreadableFile):
                order = AttemptFolder(resident.folder, resident.attempt).order()
                requested = None if order is None else requested_share(order.env)
            meter = Meter(_saved_state(resident.folder), self._window_s, requested)
            counter = counter_path(resident.folder)
            self._watched[resident.attempt] = _Measured(
                resident.folder, counter, meter, self._clock(), resident.devices
            )
        return self._watched[resident.attempt]

    def _note_faults(self, at: float) -> None:
        faults = self._backend.faults()
        labels = {device.id: label(device) for device in self._backend.devices()} if faults else {}
        for fault in faults:
            name = labels.get(fault.device, fault.device)
            _log.warning("%s: the driver reports XID %d", name, fault.xid, extra={"action": "xid", "xid": fault.xid})
            for watched in self._watched.values():
                if fault.device not in watched.devices:
                    continue
                path = watched.folder / "xid"
                try:
                    with os.fdopen(open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "a") as file:
                        file.write(f"{fault.xid} {at:.3f}\n")
                except OSError as error:
                    _log.warning("%s cannot be written: %s", path, error.strerror)


def saved_measurement(folder: Path) -> Measurement:
    """What was last saved in the folder of an attempt, and all steps that it has counted."""
    return _finished(Meter(_saved_state(folder)), folder)


def _finished(meter: Meter, folder: Path) -> Measurement:
    progress, why_not_counted = read_counter(counter_path(folder))
    measurement = meter.finish(progress)
    return measurement if measurement.steps else replace(measurement, not_counted=why_not_counted)


def _saved_state(folder: Path) -> MeterState | None:
    """The state of its meter that was last saved; None if there is none that can be read."""
    try:
        saved = msgspec.json.decode(read_regular(folder / "measure.json", _LARGEST_SAVED_BYTES), type=_Saved)
        if saved.version > VERSION:
            raise msgspec.ValidationError(f"it was written by a newer gpuq (version {saved.version} of the file)")
        return saved.state
    except FileNotFoundError:
        return None
    except (OSError, *NOT_JSON) as error:
        _log.warning("the measurement in %s cannot be read and starts again: %s", folder, error)
        return None


def _write(watched: _Measured) -> None:
    path = watched.folder / "measure.json"
    body = msgspec.json.encode(_Saved(watched.meter.measurement(), watched.meter.state))
    try:
        # Not forced to the disk: after a crash of the machine the job is gone too.
        write_private(path, body, durable=False)
    except OSError as error:
        _log.warning("%s cannot be written: %s", path, error.strerror)
