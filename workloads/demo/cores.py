"""How many cores' worth of time the control groups above this process leave it, as containers and `systemd` limit it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_SYSTEM = Path("/")


def quota(root: Path = _SYSTEM) -> float | None:
    """The tightest CPU quota in cores; None where there is none or it cannot be read."""
    return min(_quotas(root), default=None)


def _quotas(root: Path) -> Iterator[float]:
    try:
        groups = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for group in groups:
        _, controllers, path = group.split(":", 2)
        if controllers == "":
            top = root / "sys/fs/cgroup"
        elif "cpu" in controllers.split(","):
            top = root / "sys/fs/cgroup" / controllers
        else:
            continue
        # In a container the path may be that of the host, which is not there: the container's own group is the top then.
        own = top / path.lstrip("/")
        for level in (own, *own.parents):
            found = _version_2(level) if controllers == "" else _version_1(level)
            if found is not None:
                yield found
            if level == top:
                break


def _version_2(group: Path) -> float | None:
    try:
        quota_us, period_us = (group / "cpu.max").read_text().split()
    except (OSError, ValueError):
        return None
    return None if quota_us == "max" else int(quota_us) / int(period_us)


def _version_1(group: Path) -> float | None:
    try:
        quota_us, period_us = (int((group / f"cpu.cfs_{name}_us").read_text()) for name in ("quota", "period"))
    except (OSError, ValueError):
        return None
    return None if quota_us <= 0 else quota_us / period_us
