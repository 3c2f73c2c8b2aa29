"""Runs code under a time limit, in the calling thread.

A POSIX interval timer sends SIGALRM, whose handler raises `TimeLimitExceeded` inside the running code. A worker thread or a
process instead would need a copy of the scheduling context, or locks around it.

Limits of this: only the main thread of a process gets signals, so elsewhere code runs to its end; and C code that does not
return to the interpreter cannot be interrupted.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Protocol, TypeVar

T = TypeVar("T")

# The timer fires again at this interval, because the code may catch the first exception and go on.
_REPEAT_S = 0.05
# While a spared frame is on the stack the timer is checked this often.
_SPARED_REPEAT_S = 0.001
# setitimer(0) would switch the timer off, so an exhausted limit becomes the shortest timer instead.
_SHORTEST_S = 1e-6


class TimeLimitExceeded(BaseException):
    """The code took too long. Not an `Exception`, so that code with `except Exception` is ended too."""


class TimeLimit(Protocol):
    """Runs `work`. Raises TimeLimitExceeded if it takes longer than `seconds` and can be interrupted."""

    def __call__(self, work: Callable[[], T], seconds: float) -> T:
        """The result of `work`."""
        ...


def no_time_limit(work: Callable[[], T], seconds: float) -> T:  # noqa: ARG001 - it is a TimeLimit
    """Runs `work` to its end, for threads other than the main one and for runs that must not depend on a clock."""
    return work()


class SignalTimeLimit:
    """The limit by SIGALRM. `spared` are packages whose code is never interrupted, so that what it changes stays consistent."""

    def __init__(self, spared: tuple[str, ...] = ()) -> None:
        self._spared = spared

    def __call__(self, work: Callable[[], T], seconds: float) -> T:
        """The result of `work`. Afterwards SIGALRM and its timer are as they were before."""
        if threading.current_thread() is not threading.main_thread():
            return work()
        handler = signal.signal(signal.SIGALRM, self._on_alarm)
        timer = signal.setitimer(signal.ITIMER_REAL, max(seconds, _SHORTEST_S), _REPEAT_S)
        try:
            return work()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, handler)
            signal.setitimer(signal.ITIMER_REAL, *timer)

    def _on_alarm(self, _number: int, frame: FrameType | None) -> None:
        """Raise TimeLimitExceeded, but only inside `work` and outside spared packages."""
        # Walk outwards from the interrupted frame to `__call__`: all frames in between belong to `work`.
        inner = frame
        while inner is not None and inner.f_code is not _CALL:
            if _is_in(inner, self._spared):
                signal.setitimer(signal.ITIMER_REAL, _SPARED_REPEAT_S, _REPEAT_S)
                return
            inner = inner.f_back
        # `inner is frame`: the signal arrived in `__call__` itself, before `work` began or after it ended. Raising there would
        # leave the timer or the handler installed.
        if inner is None or inner is frame:
            return
        raise TimeLimitExceeded


_CALL = SignalTimeLimit.__call__.__code__


def _is_in(frame: FrameType, packages: tuple[str, ...]) -> bool:
    name = frame.f_globals.get("__name__") or ""
    return any(name == package or name.startswith(f"{package}.") for package in packages)
