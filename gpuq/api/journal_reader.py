"""Reads of the journal that event streams share: those that wait at the same place get the same answer, so fifty open pages cost
hardly more than one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextvars import Context

from gpuq.adapters.store.row_types import Entry
from gpuq.core.state.job import JobId

Place = tuple[int, JobId | None, bool]
"""After which entry, of which job (None: of all), and whether only entries that name jobs."""
_REUSE_S = 0.2


class JournalReader:
    """`read` gives the entries behind a place. For one event loop."""

    def __init__(
        self, read: Callable[[Place], Coroutine[None, None, list[Entry]]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._read, self._clock = read, clock
        self._reads: dict[Place, tuple[float, asyncio.Task[list[Entry]]]] = {}

    async def entries(self, place: Place) -> list[Entry]:
        """The entries, as they were at most a fifth of a second ago. Raises what the read raises."""
        now = self._clock()
        self._reads = {
            known: (at, task) for known, (at, task) in self._reads.items() if now - at < _REUSE_S or not task.done()
        }
        if place not in self._reads:
            # In a context of its own: it is no read of the user who asked first, behind whose others all would wait.
            self._reads[place] = now, asyncio.create_task(self._read(place), context=Context())
        # One client that goes away must not end the read of the others.
        return await asyncio.shield(self._reads[place][1])
