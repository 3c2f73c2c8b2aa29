"""Once a second: what every device and every resident of this host does, and what it adds up to per attempt.

Arrives: the residents that the worker service watches. Leaves: a `Sample` for the report, and a `Measurement` for each
attempt that ends. Each attempt's state is kept in `measure.json` in its folder. A reading that cannot be taken is None;
a folder that cannot be written costs the measurement after a restart, nothing else.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from gpuq.adapters.devices import Backend, Resident, Usage
from gpuq.core.attempt import AttemptId
from gpuq.core.device import DeviceId, Reading
from gpuq.core.events import ResidentReport
from gpuq.core.measurement import Measurement
from gpuq.errors import BadSettings, Unreachable
from gpuq.settings import Settings
from workers.measure import WINDOW_S, Look, Meter, State
from workers.progress import Progress, read_progress, why_not_counted

_KEEP_EVERY_S = 5.0
_log = logging.getLogger(__name__)


def open_backend(settings: Settings) -> Backend:
    """The device backend that the settings name. Raises BadSettings; Unreachable where `nvml` is asked for in vain."""
    match settings.devices.backend:
        case "cpu":
            return _open_cpu(settings)
        case "nvml":
            return _open_nvml(settings)
        case "auto":
            try:
                return _open_nvml(settings)
            except Unreachable as error:
                _log.info("CPU devices, since there is no NVIDIA GPU to use: %s", error.message)
                return _open_cpu(settings)
        case other:
            raise BadSettings(f"`backend` under [devices] must be nvml, cpu or auto, not {other!r}.")


def _open_cpu(settings: Settings) -> Backend:
    from gpuq.adapters import cpu

    return cpu.open_backend(settings)


def _open_nvml(settings: Settings) -> Backend:
    from gpuq.adapters import nvml

    return nvml.open_backend(settings)


@dataclass(frozen=True, slots=True)
class WatchedResident:
    """An attempt that runs here: the root of its tree (the shim), its devices and its folder. `started_at` is wall time."""

    attempt: AttemptId
    root_pid: int
    devices: tuple[DeviceId, ...]
    folder: Path
    started_at: float | None


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at this host, in the words of `HostReported`."""

    readings: tuple[tuple[DeviceId, Reading], ...]
    residents: tuple[ResidentReport, ...]


@dataclass(slots=True)
class _Watched:
    folder: Path
    meter: Meter
    kept_at: float


class _Kept(msgspec.Struct):
    """`measure.json`."""

    measurement: Measurement
    state: State


class Sampler:
    """Looks, and remembers what each attempt's looks add up to."""

    def __init__(
        self, backend: Backend, clock: Callable[[], float] = time.monotonic, window_s: float = WINDOW_S
    ) -> None:
        self._backend = backend
        self._clock = clock
        self._window_s = window_s
        self._watched: dict[AttemptId, _Watched] = {}

    def sample(self, now: float, residents: Sequence[WatchedResident]) -> Sample:
        """One look; `now` is wall time. Never raises for a device or a job that cannot be read."""
        snapshot = self._backend.read(now, [Resident(r.attempt, r.root_pid, r.devices) for r in residents])
        reports = []
        for resident in residents:
            usage = snapshot.usage.get(resident.attempt, Usage(None, None))
            progress = read_progress(resident.folder / "progress")
            busy = [snapshot.readings[d].utilization_pct for d in resident.devices if d in snapshot.readings]
            look = Look(
                at=now,
                clock=self._clock(),
                memory_bytes=usage.memory_bytes,
                utilization_pct=usage.utilization_pct,
                busy_pct=max((value for value in busy if value is not None), default=None),
                partners=_partners(resident, residents),
                progress=progress,
            )
            watched = self._watch(resident)
            watched.meter.look(look)
            self._keep(watched, look.clock)
            reports.append(_report(resident, usage, watched.meter.rate(), progress))
        return Sample(tuple(snapshot.readings.items()), tuple(reports))

    def finish(self, attempt: AttemptId, folder: Path | None = None) -> Measurement:
        """The measurement of an attempt that is over. `folder` serves where it ended before it was ever sampled here."""
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
        """Keep what is known of every attempt, and let go of the driver."""
        for watched in self._watched.values():
            _write(watched)
        self._backend.close()

    def _watch(self, resident: WatchedResident) -> _Watched:
        if resident.attempt not in self._watched:
            meter = Meter(_read_state(resident.folder), self._window_s)
            self._watched[resident.attempt] = _Watched(resident.folder, meter, self._clock())
        return self._watched[resident.attempt]

    def _keep(self, watched: _Watched, clock: float) -> None:
        if clock - watched.kept_at >= _KEEP_EVERY_S:
            watched.kept_at = clock
            _write(watched)


def read_measurement(folder: Path) -> Measurement | None:
    """What the worker service last wrote of the attempt in `folder`; None when there is nothing sound."""
    kept = _read_kept(folder)
    return None if kept is None else kept.measurement


def _partners(resident: WatchedResident, residents: Sequence[WatchedResident]) -> tuple[AttemptId, ...]:
    own = set(resident.devices)
    return tuple(sorted(r.attempt for r in residents if r.attempt != resident.attempt and own.intersection(r.devices)))


def _report(resident: WatchedResident, usage: Usage, rate: float | None, progress: Progress | None) -> ResidentReport:
    return ResidentReport(
        attempt=resident.attempt,
        memory_bytes=usage.memory_bytes,
        utilization_pct=usage.utilization_pct,
        steps=None if progress is None else progress.steps,
        rate=rate,
        started_at=resident.started_at,
        not_counted=why_not_counted(resident.folder / "progress") if progress is None else None,
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
        _log.warning("the measurement in %s starts anew: %s", folder, error)
        return None


def _write(watched: _Watched) -> None:
    """Whole or not at all: under another name first. Not synced: after a crash of the machine the job is gone too."""
    path = watched.folder / "measure.json"
    aside = path.with_suffix(".new")
    body = msgspec.json.encode(_Kept(watched.meter.measurement(), watched.meter.state))
    try:
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(body)
        aside.rename(path)
    except OSError as error:
        _log.warning("%s cannot be written: %s", path, error.strerror)
