"""How long ago the kernel's OOM killer struck, by its counter.

Reads the counter of our own control group where it has one, else that of the whole machine. Standard library only, as all of
the shim.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress


class OomWatch:
    """Notices increases of the counter; looked at several times a second."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._path = _events_file()
        self._count = self._read()
        self._rose_at: float | None = None

    def look(self) -> None:
        """Read the counter. A look at which it cannot be read changes nothing."""
        now = self._read()
        if now is None:
            return
        if self._count is not None and now > self._count:
            self._rose_at = self._monotonic()
        self._count = now

    def seconds_ago(self) -> float | None:
        """Seconds since the look that noticed the last increase; None if there was none."""
        self.look()
        return None if self._rose_at is None else self._monotonic() - self._rose_at

    def _read(self) -> int | None:
        with suppress(OSError, ValueError), open(self._path, "rb") as file:  # noqa: PTH123
            for line in file:
                if line.startswith(b"oom_kill "):
                    return int(line.split()[1])
        return None


def _events_file() -> str:
    with suppress(OSError), open("/proc/self/cgroup") as file:  # noqa: PTH123
        for line in file:
            if line.startswith("0::"):
                path = f"/sys/fs/cgroup{line[3:].strip()}/memory.events"
                if os.path.exists(path):  # noqa: PTH110
                    return path
    return "/proc/vmstat"
