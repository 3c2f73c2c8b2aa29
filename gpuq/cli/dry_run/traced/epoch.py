"""The rest of an epoch, once the first training steps have shown what they need: a validation may have larger batches, and the
best weights are copied after it.

The loaders of the training end early, later ones give a few batches, and with the training's next steps it is over.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

_BATCHES, _STEPS = 3, 3
_LONGEST_S = 60


class Epoch:
    """What comes after the steps that showed enough. `over` is called when it has ended; it must not return."""

    def __init__(self, over: Callable[[], None]) -> None:
        self._over = over
        self.is_cut = False
        """Whether enough was seen, so that the rest is gone through."""
        self._left = _STEPS
        self._reading = 0

    def cut(self) -> None:
        """Enough was seen. Where no loader is being read, nothing tells how to come to the end of the epoch."""
        self.is_cut = True
        if self._reading == 0:
            self._over()
        with suppress(ValueError):  # not in the main thread
            signal.signal(signal.SIGALRM, lambda *_: self._over())
            signal.setitimer(signal.ITIMER_REAL, _LONGEST_S)

    def stepped(self) -> None:
        """An optimizer made a step after that: of what is left of the epoch, or of the next one."""
        self._left -= 1
        if self._left == 0:
            self._over()

    def read(self, batches: Iterator[Any]) -> Iterator[Any]:
        """These batches of a loader, and only a few of them once enough was seen."""
        count = 0
        self._reading += 1
        try:
            for batch in batches:
                if self.is_cut and count >= _BATCHES:
                    return
                yield batch
                count += 1
        finally:
            self._reading -= 1
