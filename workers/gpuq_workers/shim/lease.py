"""The lease of a job that is started elsewhere once its host is lost (`--requeue`): it runs only while its host is connected.

The worker service renews the lease of the host whenever the leading dispatcher has answered a report. The lease is the
modification time of a file: when that report was sent, in seconds since boot. So it never ends later than the dispatcher assumes,
which counts from when it took the report. Standard library only, as all of the shim.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

LONGEST_GRACE_S = 15.0
"""A job whose lease has ended has at most this long between SIGTERM and SIGKILL: the dispatcher waits for twice as long."""
_FIRST_RENEWAL_WITHIN_S, _LOOK_EVERY_S = 3.0, 0.1


def uptime() -> float:
    """Seconds since boot, which also count while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class JobLease:
    """The lease that `order.json` names in `lease`, for `lease_s` seconds; one that never ends if it names none."""

    def __init__(self, order: dict[str, Any], clock: Callable[[], float] = uptime) -> None:
        self._path: str | None = order.get("lease")
        self._lease_s: float | None = order.get("lease_s")
        self._clock = clock
        self._renewed_at = float("-inf")

    @property
    def reason(self) -> str:
        """Why a job ends with its lease, in words."""
        return f"its host was not connected to the dispatcher for {self._lease_s:g} s, so it may start elsewhere"

    def has_ended(self) -> bool:
        """Whether the lease was not renewed for too long. A file that cannot be looked at says nothing new."""
        if self._path is None or self._lease_s is None:
            return False
        now = self._clock()
        with suppress(OSError):
            at = os.lstat(self._path).st_mtime
            if at <= now:
                self._renewed_at = max(self._renewed_at, at)
        return now - self._renewed_at > self._lease_s

    def has_begun(self) -> bool:
        """Whether the job may start. Right after the start of a host, its first report may still be unanswered."""
        until = time.monotonic() + _FIRST_RENEWAL_WITHIN_S
        while self.has_ended():
            if time.monotonic() > until:
                return False
            time.sleep(_LOOK_EVERY_S)
        return True
