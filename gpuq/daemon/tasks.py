"""Background tasks of the dispatcher. A task that ends or fails ends the process.

asyncio only logs the exception of a task that nothing awaits, and drops tasks without a reference. Here each task is kept and
awaited, so a dispatcher without one of its parts does not go on as if it were whole.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from gpuq.adapters.tasks import end

log = logging.getLogger(__name__)


class Tasks:
    """The running tasks. When the first of them ends, the process ends, and its supervisor starts it again."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` in the background. `name` is for the log."""
        self._tasks.add(asyncio.create_task(work, name=name))

    async def run_until(self, stop: asyncio.Event) -> None:
        """Wait until `stop` is set or a task ends, then cancel all tasks. Raises the exception of the task that failed."""
        stopping = asyncio.create_task(stop.wait(), name="stop")
        done, waiting = await asyncio.wait({*self._tasks, stopping}, return_when=asyncio.FIRST_COMPLETED)
        await end(waiting)
        for task in done & self._tasks:
            log.error("task ended: %s", task.get_name(), extra={"action": "task_ended"})
            task.result()
