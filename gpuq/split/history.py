"""What this host has seen of each launch: speeds, checks and faults. One small JSON file per signature and set of devices."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from gpuq.split.launch import KernelLaunch, OpenClDevice


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
        """Change an entry. It is written whole, under another name first."""
        path = self._path(launch, devices)
        entry = replace(self.find(launch, devices), **changes)  # type: ignore[arg-type]
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(asdict(entry)), encoding="utf-8")
        draft.replace(path)
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
    entry = LaunchRecord(**json.loads(path.read_text(encoding="utf-8")))
    return replace(entry, features=tuple(entry.features), speeds=tuple(entry.speeds))
