"""The dispatcher's clock: intervals are measured by a time that never steps, records get the wall clock's.

The state has times of this clock only. Times from elsewhere (a submission, a start) are brought to it where they come in, and
what is recorded or shown is brought to wall time where it goes out.
"""

from __future__ import annotations

import time
from collections.abc import Callable

# Reading two clocks one after the other, and their rounding, is no step.
_LEAST_STEP_S = 1.0


def _uptime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class SteadyClock:
    """Unix time as it was when the process began, plus what has passed since, whatever the wall clock is set to meanwhile.

    What has passed is CLOCK_BOOTTIME's: unlike CLOCK_MONOTONIC it counts while the machine is suspended. Other hosts go on
    meanwhile, so waits and silences have lasted that long.
    """

    def __init__(self, wall: Callable[[], float] = time.time, elapsed: Callable[[], float] = _uptime) -> None:
        self._wall, self._elapsed = wall, elapsed
        self._began = wall() - elapsed()

    def __call__(self) -> float:
        """Seconds, for intervals."""
        return self._began + self._elapsed()

    def wall_offset(self) -> float:
        """What to add to this clock's times for wall time: 0 until the wall clock is set, by a second or more."""
        ahead = self._wall() - self()
        return ahead if abs(ahead) >= _LEAST_STEP_S else 0.0
