"""How tasks of asyncio are ended, and how one waits for an event.

`asyncio.wait_for` of Python 3.11 loses a cancellation that comes as its work ends, and redis-py sends each command with it. So a
task that was cancelled once may run on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress
from typing import Any

_AGAIN_S = 1.0


async def wait_for_event(event: asyncio.Event, at_most_s: float | None) -> None:
    """Return when the event is set, or after this time; None: however long that takes."""
    with suppress(TimeoutError):
        async with asyncio.timeout(at_most_s):
            await event.wait()


async def end(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks, again each second, until all have ended. What they raised is not raised here."""
    running = set(tasks)
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=_AGAIN_S)
    await asyncio.gather(*tasks, return_exceptions=True)
