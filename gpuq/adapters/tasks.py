"""How tasks of asyncio are ended.

`asyncio.wait_for` of Python 3.11 loses a cancellation that comes as its work ends, and redis-py sends each command with it. So a
task that was cancelled once may run on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

_AGAIN_S = 1.0


async def end(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks, again each second, until all have ended. What they raised is not raised here."""
    running = set(tasks)
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=_AGAIN_S)
    await asyncio.gather(*tasks, return_exceptions=True)
