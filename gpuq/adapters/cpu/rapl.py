"""The energy of the machine's processors, from the kernel's powercap files (RAPL).

Since 2020 only root may read the counters (CVE-2020-8694), so a worker service that runs as another user gets None. Only whole
packages are counted, because their subzones are included. A counter wraps around at `max_energy_range_uj` of its zone.
"""

from __future__ import annotations

from pathlib import Path

_POWERCAP = Path("/sys/class/powercap")


class Rapl:
    """The sum over all packages, between two calls."""

    def __init__(self, root: Path = _POWERCAP) -> None:
        self._zones = [
            zone for zone in sorted(root.glob("intel-rapl:*")) if zone.name.count(":") == 1 and _is_package(zone)
        ]
        self._before: dict[Path, int] = {}

    def spent(self) -> float | None:
        """Joules since the last call; None at the first call and where a package cannot be read."""
        now = {zone: _number(zone / "energy_uj") for zone in self._zones}
        known = {zone: value for zone, value in now.items() if value is not None}
        before, self._before = self._before, known
        if not known or len(known) < len(now) or before.keys() != known.keys():
            return None
        parts = [_since(zone, before[zone], value) for zone, value in known.items()]
        return None if None in parts else sum(part for part in parts if part is not None) / 1e6


def _is_package(zone: Path) -> bool:
    try:
        return (zone / "name").read_text().startswith("package")
    except OSError:
        return False


def _since(zone: Path, before: int, now: int) -> int | None:
    if now >= before:
        return now - before
    most = _number(zone / "max_energy_range_uj")
    return None if most is None else now - before + most


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
