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
        zones = (zone for zone in sorted(root.glob("intel-rapl:*")) if zone.name.count(":") == 1)
        self._zones = [zone for zone in zones if _read(zone / "name").startswith("package")]
        self._before: dict[Path, int] = {}

    def spent(self) -> float | None:
        """Joules since the last call; None at the first call and where a package cannot be read."""
        texts = {zone: _read(zone / "energy_uj").strip() for zone in self._zones}
        now = {zone: int(text) for zone, text in texts.items() if text.isdecimal()}
        before, self._before = self._before, now
        if not now or len(now) < len(self._zones) or before.keys() != now.keys():
            return None
        microjoules = 0
        for zone, value in now.items():
            microjoules += value - before[zone]
            if value < before[zone]:
                most = _read(zone / "max_energy_range_uj").strip()
                if not most.isdecimal():
                    return None
                microjoules += int(most)
        return microjoules / 1e6


def _read(path: Path) -> str:
    """The file's text; empty if it cannot be read."""
    try:
        return path.read_text()
    except OSError:
        return ""
