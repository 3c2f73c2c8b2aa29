"""Submissions on their way into the record, many at a time.

Arrives: records from handlers. Leaves: ids, once they are committed. While one commit runs, what arrives is
collected for the next, so that many clients share one transaction and one fsync. Then one ring. A ring that fails is
only counted: the dispatcher reads the record every second anyway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from gpuq.core.state.job import JobId
from gpuq.errors import GpuqError, Unreachable
from gpuq.submission import JobRecord
from gpuq.wire import Message, Ring

_RING_WITHIN_S = 2.0
_PAUSE_S = 0.005


class Record(Protocol):
    """The one call the committer makes."""

    def add_jobs(self, records: Sequence[JobRecord]) -> list[JobId]:
        """Commit submissions; ids in order."""
        ...


class Bell(Protocol):
    """Where the ring goes."""

    async def add(self, message: Message, /) -> object:
        """Put one message into the dispatcher's inbox. Raises Unreachable."""
        ...


@dataclass(frozen=True, slots=True)
class _Ask:
    records: Sequence[JobRecord]
    answer: asyncio.Future[list[JobId]]


class Committer:
    """Groups submissions into commits; `run` is its one task."""

    def __init__(self, record: Record, committed: Callable[[], None]) -> None:
        self._record = record
        self._committed = committed
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="commit")
        self._asks: list[_Ask] = []
        self._wake = asyncio.Event()
        self._closed = False
        self.submitted = 0

    async def add(self, records: Sequence[JobRecord]) -> list[JobId]:
        """The ids of these jobs, after their commit. All or nothing. Raises what the record raises."""
        if self._closed:
            raise Unreachable("This process is stopping.", fix="Send the submission again in a moment.")
        ask = _Ask(records, asyncio.get_running_loop().create_future())
        self._asks.append(ask)
        self._wake.set()
        return await ask.answer

    async def run(self) -> None:
        """Commit until `close`; what was asked before is still committed."""
        while not self._closed or self._asks:
            await self._wake.wait()
            self._wake.clear()
            asks, self._asks = self._asks, []
            if asks:
                await self._commit(asks)
        self._thread.shutdown(wait=False)

    def close(self) -> None:
        """Take no more; let `run` end."""
        self._closed = True
        self._wake.set()

    async def _commit(self, asks: list[_Ask]) -> None:
        try:
            ids = await self._write([record for ask in asks for record in ask.records])
        except Exception as error:  # noqa: BLE001 - whatever went wrong belongs to those who asked, not to this task
            await self._commit_singly(asks, error)
            return
        self._committed()
        position = 0
        for ask in asks:
            _answer(ask, ids[position : position + len(ask.records)])
            position += len(ask.records)

    async def _commit_singly(self, asks: list[_Ask], error: Exception) -> None:
        """One bad record must not take its companions down; a record that is away answers nobody, so no second try."""
        if len(asks) == 1 or isinstance(error, GpuqError):
            for ask in asks:
                _refuse(ask, error)
            return
        for ask in asks:
            await self._commit([ask])

    async def _write(self, records: list[JobRecord]) -> list[JobId]:
        ids = await asyncio.get_running_loop().run_in_executor(self._thread, self._record.add_jobs, records)
        self.submitted += len(ids)
        return ids


def _answer(ask: _Ask, ids: list[JobId]) -> None:
    if not ask.answer.done():
        ask.answer.set_result(ids)


def _refuse(ask: _Ask, error: Exception) -> None:
    if not ask.answer.done():
        ask.answer.set_exception(error)


class Ringer:
    """Tells the dispatcher to look at the record; rings that come while one is under way become one."""

    def __init__(self, bell: Bell) -> None:
        self._bell = bell
        self._wanted = asyncio.Event()
        self.failed = 0

    def ring(self) -> None:
        """Ring soon; returns at once."""
        self._wanted.set()

    async def run(self) -> None:
        """Ring whenever asked to, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                await asyncio.wait_for(self._bell.add(Ring()), _RING_WITHIN_S)
            except (GpuqError, TimeoutError, OSError):
                self.failed += 1
            # Under a flood, a ring for each commit would cost more than it tells.
            await asyncio.sleep(_PAUSE_S)
