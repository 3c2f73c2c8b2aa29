"""What this host has seen of each launch: speeds, checks and faults. One small JSON file per signature and set of devices."""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from gpuq.home import write_private
from gpuq.split.launch import KernelLaunch, OpenClDevice

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LaunchRecord:
    """`speeds`: groups per second of each device in the newest run. `checked_at`: the number of the run that was last checked.

    `quarantined`: why the launch runs whole from now on. `whole_on`: the device that alone was faster than the newest split.
    `features`: see `features_of`; a program is known by its source's hash.
    """

    program: str
    devices: str
    features: tuple[float, ...]
    runs: int = 0
    speeds: tuple[float | None, ...] = ()
    checked_at: int | None = None
    quarantined: str | None = None
    whole_on: int | None = None

    def share(self) -> float | None:
        """The first device's share at which all end at once, or None if a speed is not known."""
        known = [one for one in self.speeds if one]
        return known[0] / sum(known) if len(known) == len(self.speeds) > 1 else None


def features_of(launch: KernelLaunch) -> tuple[float, ...]:
    """What tells launches apart before any run: work-items, group size, bytes of buffers, letters of the source."""
    size = group = 1
    for whole, part in zip(launch.range.size, launch.range.local, strict=True):
        size, group = size * whole, group * part
    total = sum(one.nbytes for one in launch.buffers.values())
    return tuple(float(one) for one in (size, group, total, len(launch.source)))


def device_names(devices: Sequence[OpenClDevice]) -> str:
    """A name of a set of devices, in order. Shares hold for this set only."""
    return json.dumps([asdict(one) for one in devices], sort_keys=True)


class LaunchHistory:
    """The entries below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _path(self, launch: KernelLaunch, devices: Sequence[OpenClDevice]) -> Path:
        digest = hashlib.sha256(device_names(devices).encode()).hexdigest()[:12]
        return self.folder / f"{launch.signature()}-{digest}.json"

    def find(self, launch: KernelLaunch, devices: Sequence[OpenClDevice]) -> LaunchRecord:
        """The entry of a launch; a new one if there is none, or none that can be read."""
        try:
            return _read(self._path(launch, devices))
        except (OSError, ValueError, TypeError, KeyError):
            program = hashlib.sha256(launch.source.encode()).hexdigest()[:16]
            return LaunchRecord(program, device_names(devices), features_of(launch))

    def keep(self, launch: KernelLaunch, devices: Sequence[OpenClDevice], **changes: object) -> LaunchRecord:
        """Change an entry. A run that has ended is not lost for a history that cannot be written: this is logged."""
        path = self._path(launch, devices)
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with (self.folder / "lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # released with the file
                entry = replace(self.find(launch, devices), **changes)  # type: ignore[arg-type]
                write_private(path, json.dumps(asdict(entry)).encode(), durable=False)
        except OSError as error:
            _log.warning("what this run showed is not kept: %s", error)
            entry = replace(self.find(launch, devices), **changes)  # type: ignore[arg-type]
        return entry

    def by_devices(self, count: int) -> dict[str, list[LaunchRecord]]:
        """All entries that have a share, by the name of their set of so many devices."""
        found: dict[str, list[LaunchRecord]] = {}
        for path in sorted(self.folder.glob("*.json")):
            try:
                entry = _read(path)
            except (OSError, ValueError, TypeError, KeyError):
                continue
            if entry.share() is not None and len(entry.speeds) == count:
                found.setdefault(entry.devices, []).append(entry)
        return found


def _read(path: Path) -> LaunchRecord:
    """Raises OSError, ValueError, TypeError and KeyError, also where a value cannot be one that was written."""
    entry = LaunchRecord(**json.loads(path.read_text(encoding="utf-8")))
    entry = replace(entry, features=tuple(map(float, entry.features)), speeds=tuple(entry.speeds))
    devices = len(json.loads(entry.devices))
    sound = (
        isinstance(entry.program, str)
        and isinstance(entry.quarantined, str | None)
        and _is_count(entry.runs)
        and (entry.checked_at is None or _is_count(entry.checked_at))
        and (entry.whole_on is None or (_is_count(entry.whole_on) and entry.whole_on < devices))
        and len(entry.speeds) in (0, devices)
        and all(one is None or (type(one) in (int, float) and 0 < one < math.inf) for one in entry.speeds)
        and all(map(math.isfinite, entry.features))
    )
    if not sound:
        raise ValueError(f"{path} has values that no run gives")
    return entry


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0
