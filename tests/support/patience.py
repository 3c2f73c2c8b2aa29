"""How long tests wait: a clock that stands still while processes of this machine wait for a processor, and waits on that clock.

A limit that proves something ("within two seconds") is then as strict as ever on a machine that is idle, and does not fail on one
that is busy with other things. Linux counts these times in /proc/pressure/cpu; where it does not, the clock is the usual one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

WITHIN_S = 60.0
"""The limit of a wait that proves only that what is waited for comes."""
_PRESSURE = Path("/proc/pressure/cpu")
# Where processes wait all the time, the clock would stand still.
_AT_MOST_TIMES = 10


class Stopwatch:
    """Seconds since its start in which no process had to wait for a processor; at least a tenth of the usual ones."""

    def __init__(self) -> None:
        self._began, self._waited_s = time.monotonic(), waited_s()

    @property
    def seconds(self) -> float:
        usual = time.monotonic() - self._began
        return max(usual / _AT_MOST_TIMES, usual - self.waited_s)

    @property
    def waited_s(self) -> float:
        """For how long since its start a process had to wait: by so much others may be late."""
        return waited_s() - self._waited_s


def waited_s() -> float:
    """For how long processes have waited for a processor since the machine was started, one or more of them at a time."""
    try:
        text = _PRESSURE.read_text()
    except OSError:
        return 0.0
    return int(text.split("total=")[1].split()[0]) / 1e6


def wait_for(look: Callable[[], T | None], within_s: float = WITHIN_S, story: Callable[[], str] = lambda: "") -> T:
    """What `look` gives once it gives something; fails with the story after `within_s`.

    It looks less often the longer it waits: a look at a job takes the endpoint 3 ms, and the suite waits for many minutes.
    """
    watch, began = Stopwatch(), time.monotonic()
    while not (found := look()):
        assert watch.seconds <= within_s, f"not within {within_s} s. {story()}"
        time.sleep(_pause_s(began))
    return found


async def until(look: Callable[[], T | None], within_s: float = WITHIN_S, story: Callable[[], str] = lambda: "") -> T:
    """As `wait_for`, while tasks of this process go on."""
    watch, began = Stopwatch(), time.monotonic()
    while not (found := look()):
        assert watch.seconds <= within_s, f"not within {within_s} s. {story()}"
        await asyncio.sleep(_pause_s(began))
    return found


def _pause_s(began: float) -> float:
    return min(max(0.02, (time.monotonic() - began) / 10), 0.1)
