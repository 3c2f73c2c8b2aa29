"""The lease of the jobs of this host that start elsewhere once it is lost: the worker service's side of `shim/lease.py`."""

from __future__ import annotations

import os
from pathlib import Path

from gpuq.adapters.process import boot_id
from gpuq.home import open_regular


def lease_file(folder: Path) -> Path:
    """The file of the lease on this boot: its times mean nothing on another one."""
    return folder / f"lease-{boot_id()}"


def remove_former(path: Path) -> None:
    """Remove the files of earlier boots. Raises OSError."""
    for former in path.parent.glob("lease-*"):
        if former != path:
            former.unlink()


def renew(path: Path, at: float) -> None:
    """Renew the lease: the leader has answered a report that was sent at `at`, in seconds since boot. Raises OSError.

    Needs no space on the disk after the first time.
    """
    os.close(open_regular(path, os.O_WRONLY | os.O_CREAT))
    os.utime(path, (at, at))
