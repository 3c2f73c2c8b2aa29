"""The lease of the jobs of this host that start elsewhere once it is lost: the worker service's side of `shim/lease.py`."""

from __future__ import annotations

import os
from pathlib import Path

from gpuq.adapters.process import boot_id
from gpuq.errors import BadSettings
from gpuq.home import open_regular
from gpuq.messages.launch import LEASE_FILE
from gpuq.settings import Settings


def lease_file(settings: Settings) -> Path:
    """The file of the lease on this boot: its times mean nothing on another one. /run is empty after each boot."""
    if settings.worker.run_as == "submitter":
        return Path(LEASE_FILE)
    return settings.home.run / f"lease-{boot_id()}"


def check(path: Path) -> None:
    """Raises BadSettings if the services cannot renew this lease, which is where they cannot make its file themselves."""
    if not os.access(path, os.W_OK):
        raise BadSettings(
            f"The lease of jobs, {path}, cannot be written.",
            fix="systemd-tmpfiles --create gpuq.conf; docs/hosts.md, Jobs of several users, says where that file has to be.",
        )


def remove_former(folder: Path) -> None:
    """Remove the files of earlier boots. Raises OSError."""
    for former in folder.glob("lease-*"):
        if former.name != f"lease-{boot_id()}":
            former.unlink()


def renew(path: Path, at: float) -> None:
    """Renew the lease: the leader has answered a report that was sent at `at`, in seconds since boot. Raises OSError.

    Needs no space on the disk after the first time.
    """
    os.close(open_regular(path, os.O_WRONLY | os.O_CREAT))
    os.utime(path, (at, at))
