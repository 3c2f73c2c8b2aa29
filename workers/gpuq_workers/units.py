"""The systemd units of attempts that run as their submitters, as far as every process of a host can see them: control groups."""

from __future__ import annotations

from pathlib import Path

from gpuq.adapters.process import read_proc

# Version 2 of control groups, or in a mixed machine the two places where systemd keeps its own.
_ROOTS = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/systemd"), Path("/sys/fs/cgroup/unified"))
_SLICE = "gpuq.slice"


def is_active(unit: str) -> bool:
    """Whether something of the unit runs. It does until its exit status is written down."""
    return any((root / _SLICE / unit).is_dir() for root in _ROOTS)


def is_in(unit: str, pid: int) -> bool:
    """Whether the process belongs to the unit; False also if it is gone."""
    return any(line.endswith(f"/{_SLICE}/{unit}".encode()) for line in read_proc(f"/proc/{pid}/cgroup").splitlines())
