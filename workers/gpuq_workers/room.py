"""Whether the folder of attempts takes one more. Where it does not, no order to start can be followed, and no folder is there to
say so in.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from gpuq.core.state.device import NoStarts

_LEAST_FREE_BYTES = 2**20
"""An attempt has some kilobytes of files before its job prints anything, and its order may have more."""


class Room:
    """Looks at the folder of a host's attempts, and since when it takes none."""

    def __init__(self, attempts: Path, clock: Callable[[], float] = time.time) -> None:
        self._attempts, self._clock = attempts, clock
        self._since_at: float | None = None

    def no_starts(self) -> NoStarts | None:
        """Why no job starts here for now."""
        why = _fault_of(self._attempts)
        if why is None:
            self._since_at = None
            return None
        self._since_at = self._since_at or self._clock()
        return NoStarts(why, self._since_at)


def _fault_of(folder: Path) -> str | None:
    try:
        found = os.statvfs(folder)
    except OSError as error:
        return f"{folder} cannot be used: {error.strerror}"
    if found.f_flag & os.ST_RDONLY:
        return f"{folder} is read-only: mounted so, or after an error of its disk"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"{folder} cannot be written by the user of the worker service"
    # Some file systems count no inodes, and say 0 of 0.
    if found.f_files and found.f_favail == 0:
        return f"the file system of {folder} has no inode left for one more file"
    free = found.f_bfree if os.geteuid() == 0 else found.f_bavail
    if free * found.f_frsize < _LEAST_FREE_BYTES:
        return f"the disk of {folder} is full"
    return None
