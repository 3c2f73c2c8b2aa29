"""Work under a time limit, in the same thread: what takes longer is broken off from within.

An interval timer's signal raises inside the work, again and again, so that work which catches everything is still ended.
Only the main thread of a process gets signals: elsewhere the work runs to its end. C code that does not come back to the
interpreter cannot be broken off by anything here. Frames of `spared` modules are never broken off: the signal waits until
they are left, so that what they were changing is whole.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Protocol, TypeVar

T = TypeVar("T")

_AGAIN_S = 0.05
_SPARED_AGAIN_S = 0.001
# The least that a timer can be set to: 0 would switch it off.
_LEAST_S = 1e-6


class TimeLimitExceeded(BaseException):
    """The work was broken off. No `Exception`: work that swallows those is meant to be ended too."""


class TimeLimit(Protocol):
    """Runs work, and raises TookTooLong if it takes longer than `seconds` and can be broken off."""

    def __call__(self, work: Callable[[], T], seconds: float) -> T:
        """What the work gives."""
        ...


def no_time_limit(work: Callable[[], T], seconds: float) -> T:  # noqa: ARG001 - it is an Alarm
    """The alarm that never goes off: for other threads, and where runs must not depend on a clock."""
    return work()


class SignalTimeLimit:
    """The alarm by SIGALRM. `spared`: names of packages whose code is never broken off."""

    def __init__(self, spared: tuple[str, ...] = ()) -> None:
        self._spared = spared

    def __call__(self, work: Callable[[], T], seconds: float) -> T:
        """What the work gives. What SIGALRM did before, it does afterwards."""
        if threading.current_thread() is not threading.main_thread():
            return work()
        handler = signal.signal(signal.SIGALRM, self._ring)
        timer = signal.setitimer(signal.ITIMER_REAL, max(seconds, _LEAST_S), _AGAIN_S)
        try:
            return work()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, handler)
            signal.setitimer(signal.ITIMER_REAL, *timer)

    def _ring(self, _number: int, frame: FrameType | None) -> None:
        """Raise in the work, if the work is what is being run right now."""
        inner = frame
        while inner is not None and inner.f_code is not _CALL:
            if _is_in(inner, self._spared):
                signal.setitimer(signal.ITIMER_REAL, _SPARED_AGAIN_S, _AGAIN_S)
                return
            inner = inner.f_back
        if inner is None or inner is frame:
            return  # the work is over, or has not begun
        raise TimeLimitExceeded


_CALL = SignalTimeLimit.__call__.__code__


def _is_in(frame: FrameType, packages: tuple[str, ...]) -> bool:
    name = frame.f_globals.get("__name__") or ""
    return any(name == package or name.startswith(f"{package}.") for package in packages)
