"""How long a request waits for the database before it is answered with 503.

A call to the database cannot be interrupted: its thread waits on, and what it wrote may still be committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final, TypeVar

from gpuq.errors import Unreachable

T = TypeVar("T")

ANSWER_WITHIN_S: Final = 4.0
"""For each wait of a request: its caller shall have an answer within five seconds."""
ANALYSIS_WITHIN_S: Final = 25.0
"""For what reads the whole record, such as the first forecast after a start. The command waits for 30 seconds."""


async def within(seconds: float, work: Awaitable[T]) -> T:
    """The result of `work`. Raises Unreachable after `seconds`, and cancels `work`."""
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError as error:
        raise Unreachable(
            f"The database has not answered for {seconds:g} s.",
            fix="Send it again in a moment. A submission may have been recorded: `gpuq queue` shows it, and with the same "
            "Idempotency-Key it is recorded only once.",
        ) from error
