"""Commits submissions to the record, many at a time, and wakes the dispatcher.

While one commit runs, the submissions that come in are collected for the next, so that many clients share one transaction and
one fsync. After a commit the dispatcher is woken; a wake-up that fails is only counted, because it reads the record every
second anyway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from gpuq.adapters.store.contract import Store
from gpuq.api.deadline import ANSWER_WITHIN_S, within
from gpuq.api.live import DispatcherLink
from gpuq.core.state.job import JobId
from gpuq.errors import BadInput, GpuqError, OverQuota, Unreachable
from gpuq.messages.job_record import JobRecord
from gpuq.messages.wire import WakeUp

_RING_WITHIN_S = 2.0
_PAUSE_S = 0.005


# Records that are to be committed together, and the future that is given their ids.
_Batch = tuple[Sequence[JobRecord], asyncio.Future[list[JobId]]]


class Committer:
    """Groups submissions into commits; `run` is its one task."""

    def __init__(self, store: Store, committed: Callable[[], None]) -> None:
        self._store = store
        self._committed = committed
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="commit")
        self._batches: list[_Batch] = []
        self._wake = asyncio.Event()
        self._closed = False

    async def add(self, records: Sequence[JobRecord]) -> list[JobId]:
        """The ids of these jobs, after their commit. All or nothing.

        Raises what the record raises, and Unreachable after ANSWER_WITHIN_S; a commit that is under way then may still succeed.
        """
        if self._closed:
            raise Unreachable("This process is stopping.", fix="Send the submission again in a moment.")
        answer: asyncio.Future[list[JobId]] = asyncio.get_running_loop().create_future()
        self._batches.append((records, answer))
        self._wake.set()
        return await within(ANSWER_WITHIN_S, answer)

    async def run(self) -> None:
        """Commit until `close`; what was added before it is still committed."""
        while not self._closed or self._batches:
            await self._wake.wait()
            self._wake.clear()
            # Those that have been answered with an error are not committed any more.
            batches = [(records, answer) for records, answer in self._batches if not answer.done()]
            self._batches = []
            if batches:
                await self._commit(batches)
        self._thread.shutdown(wait=False)

    def close(self) -> None:
        """Take no more; let `run` end."""
        self._closed = True
        self._wake.set()

    async def _commit(self, batches: list[_Batch]) -> None:
        together = [record for records, _ in batches for record in records]
        try:
            ids = await asyncio.get_running_loop().run_in_executor(self._thread, self._store.add_jobs, together)
        except Exception as error:  # noqa: BLE001 - the callers get it; this task must go on
            # A record that is away answers no batch, so there is no second try. Any other error may be one bad batch's own.
            away = isinstance(error, GpuqError) and not isinstance(error, OverQuota | BadInput)
            if len(batches) == 1 or away:
                for _, answer in batches:
                    if not answer.done():
                        answer.set_exception(error)
            else:
                for batch in batches:
                    await self._commit([batch])
            return
        self._committed()
        position = 0
        for records, answer in batches:
            if not answer.done():
                answer.set_result(ids[position : position + len(records)])
            position += len(records)


class WakeUpSender:
    """Wakes the dispatcher after commits; wake-ups that are asked for while one is under way become one."""

    def __init__(self, stream: DispatcherLink) -> None:
        self._stream = stream
        self._wanted = asyncio.Event()
        self.failed = 0

    def ring(self) -> None:
        """Ask for a wake-up; returns at once."""
        self._wanted.set()

    async def run(self) -> None:
        """Send wake-ups until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                async with asyncio.timeout(_RING_WITHIN_S):
                    await self._stream.add(WakeUp())
            except (GpuqError, TimeoutError, OSError):
                self.failed += 1
            # Under a flood of submissions, a wake-up for each commit would cost more than it is worth.
            await asyncio.sleep(_PAUSE_S)
