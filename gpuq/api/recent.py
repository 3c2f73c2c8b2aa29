"""The runs of the last month, kept in memory: reports, the timeline and the matrix of pairs look through all of them.

The first reading of a record with 100,000 attempts takes seconds. After that only what ended since is read. An end may come to
the record late, from a host that was cut off: so the last hour is read again each time, and once an hour everything.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.row_types import Run
from gpuq.core.state.attempt import AttemptId

KEPT_S = 31 * 86_400.0
_REUSE_S = 1.0
_AGAIN_S = 3600.0


class RecentRuns:
    """Safe to use from several threads."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._ended: dict[AttemptId, Run] = {}
        self._running: list[Run] = []
        self._read_at = self._read_whole_at = float("-inf")

    def since(self, moment: float) -> list[Run]:
        """Runs that ended at `moment` (Unix seconds) or later, or run still, in no order. Blocks, the first time for long."""
        if moment < self._clock() - KEPT_S:
            return self._store.runs(since=moment)
        with self._lock:
            self._catch_up(self._clock())
            return [run for run in self._ended.values() if (run.ended_at or 0.0) >= moment] + self._running

    def _catch_up(self, now: float) -> None:
        if 0 <= now - self._read_at < _REUSE_S:
            return
        whole = not 0 <= now - self._read_whole_at < _AGAIN_S
        found = self._store.runs(since=now - (KEPT_S if whole else _AGAIN_S))
        oldest = now - KEPT_S
        kept = {} if whole else {of: run for of, run in self._ended.items() if (run.ended_at or 0.0) >= oldest}
        kept |= {AttemptId(run.job, run.number): run for run in found if run.ended_at is not None}
        self._ended, self._running = kept, [run for run in found if run.ended_at is None]
        self._read_at = now
        if whole:
            self._read_whole_at = now
