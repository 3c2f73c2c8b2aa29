"""Whether the process that follows orders stays up. It is started again whenever it ends; what ends it each time, such as a wrong
setting, keeps every job from starting on this host.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from gpuq.adapters.supervise import Crash
from gpuq.core.state.device import NoStarts

log = logging.getLogger(__name__)

_CRASHES = 3
# Longer than the pause before the next start and that start together.
_LATELY_S = 20.0


class OrdersProcess:
    """What its supervision says of it."""

    def __init__(self, clock: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._monotonic = clock, monotonic
        self._fault: NoStarts | None = None
        self._crashed_at = float("-inf")

    def crashed(self, crash: Crash) -> None:
        """It has ended without having been asked to."""
        log.warning("%s", crash)
        if crash.in_a_row < _CRASHES:
            return
        since_at = self._clock() if self.no_starts() is None or self._fault is None else self._fault.since_at
        self._fault = NoStarts(f"the process that follows orders ends again and again: {crash.said}", since_at)
        self._crashed_at = self._monotonic()

    def no_starts(self) -> NoStarts | None:
        """Why no job starts here for now."""
        return self._fault if self._monotonic() - self._crashed_at < _LATELY_S else None
