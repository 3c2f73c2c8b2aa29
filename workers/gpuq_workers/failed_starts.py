"""What this host could not start, for lack of processes or memory or because the record or PID 1 did not answer, would be ordered
again at once. The host takes no jobs for a while, twice as long each time.
"""

from __future__ import annotations

from gpuq.core.state.device import NoStarts

_FIRST_WAIT_S, _LONGEST_WAIT_S = 2.0, 60.0


class FailedStarts:
    """Those since the last attempt that started. `now` is in monotonic seconds."""

    def __init__(self) -> None:
        self._in_a_row = 0
        self._fault: NoStarts | None = None
        self._again_at = float("-inf")

    def add(self, why: str, at: float, now: float) -> float | None:
        """One more failed, at this Unix time. Returns for how many seconds the host takes no jobs; None where it waits already:
        the attempt was ordered before the dispatcher had heard of that."""
        if self.no_starts(now) is not None:
            return None
        wait_s = min(_FIRST_WAIT_S * 2.0 ** min(self._in_a_row, 10), _LONGEST_WAIT_S)
        self._in_a_row += 1
        self._fault = NoStarts(why, at if self._fault is None else self._fault.since_at, at + wait_s)
        self._again_at = now + wait_s
        return wait_s

    def no_starts(self, now: float) -> NoStarts | None:
        """Why the host takes no jobs for now, and until when."""
        return self._fault if now < self._again_at else None
