"""Progress of a training: count its steps, log a line every few seconds, and decide when it ends and why.

The limits come from the command line and the loss from each step; the figures of the summary are read from here.
"""

from __future__ import annotations

import argparse
import math
import resource
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
LOG_EVERY_S = 5.0


def say(text: str) -> None:
    """One line of talk, at once: whoever follows the log sees it now."""
    print(text, flush=True)


class Progress:
    """Steps, time and loss of one run. A resumed run begins at the step count of the one before."""

    def __init__(self, options: argparse.Namespace, epoch_steps: int, resumed_at: int = 0) -> None:
        self._options = options
        self._resumed_at = resumed_at
        self._last = options.epochs * epoch_steps
        self._began = self._spoke = time.monotonic()
        self._first_step_s = self._seconds = self._waited = self._first_wait = 0.0
        self._first_loss: float | None = None
        self._last_loss: float | None = None
        self.steps = 0
        self.ended: str | None = None
        self._look_at_limits()

    @property
    def total_steps(self) -> int:
        """Those of this run, and those before it that it resumed from."""
        return self._resumed_at + self.steps

    def timed(self, wait: Callable[[], T]) -> T:
        """What `wait` brings; the time it takes counts as waiting for data."""
        began = time.monotonic()
        brought = wait()
        self._waited += time.monotonic() - began
        return brought

    def step(self, loss: float) -> None:
        """A step was made, with this loss on its batch."""
        self.steps += 1
        self._seconds = time.monotonic() - self._began
        self._last_loss = loss
        self._talk(loss)
        self._look_at_limits()

    def end(self, why: str) -> None:
        """The step under way is the last."""
        self.ended = self.ended or why

    def summary(self) -> dict[str, object]:
        """What came of it. Loss is None if it was not a number; memory is the process' own, in RAM."""
        return {
            "ended": self.ended,
            "steps": self.steps,
            "total_steps": self.total_steps,
            "seconds": round(self._seconds, 3),
            "first_step_s": round(self._first_step_s, 3),
            "steps_per_s": round(self._rate(), 3) if self.steps > 1 else None,
            "data_wait_pct": round(self._waited_pct(), 1) if self.steps > 1 else None,
            "loss_first": _finite(self._first_loss),
            "loss_last": _finite(self._last_loss),
            "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }

    def _look_at_limits(self) -> None:
        if 0 < self._options.steps <= self.total_steps:
            self.end("steps")
        elif self.total_steps >= self._last:
            self.end("epochs")
        elif 0 < self._options.seconds <= self._seconds:
            self.end("seconds")

    def _talk(self, loss: float) -> None:
        if self.steps == 1:
            self._first_loss, self._first_step_s, self._first_wait = loss, self._seconds, self._waited
            say(f"first step after {self._seconds:.1f} s, loss {loss:.4f}")
        elif time.monotonic() - self._spoke >= LOG_EVERY_S:
            self._spoke = time.monotonic()
            say(f"step {self.total_steps}  loss {loss:.4f}  {self._rate():.1f} steps/s")

    def _rate(self) -> float:
        """Steps per second after the first, which compiles."""
        after_first = self._seconds - self._first_step_s
        return (self.steps - 1) / after_first if after_first > 0 else 0.0

    def _waited_pct(self) -> float:
        """How much of the time after the first step the network stood still for want of a batch."""
        after_first = self._seconds - self._first_step_s
        return 100 * (self._waited - self._first_wait) / after_first if after_first > 0 else 0.0


def _finite(loss: float | None) -> float | None:
    return loss if loss is not None and math.isfinite(loss) else None
