"""Background tasks that must not die unseen: named, kept, and fatal to the daemon when they fail."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

log = logging.getLogger(__name__)


class Tasks:
    """The daemon's background tasks. The first that ends, well or badly, ends the daemon: supervision starts it afresh."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` in the background under a name."""
        self._tasks.add(asyncio.create_task(work, name=name))

    async def run_until(self, stop: asyncio.Event) -> None:
        """Wait for `stop`, or for a task to end; then cancel them all. Raises what the first failed task raised."""
        stopping = asyncio.create_task(_wait_for(stop), name="stop")
        done, waiting = await asyncio.wait({*self._tasks, stopping}, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for task in done & self._tasks:
            log.error("task ended: %s", task.get_name(), extra={"action": "task_ended"})
            task.result()


async def _wait_for(event: asyncio.Event) -> None:
    await event.wait()
