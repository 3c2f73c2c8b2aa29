"""Tasks end although the cancellation that should end them is lost on the way."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from gpuq.adapters import tasks
from gpuq.daemon.tasks import Tasks


async def loses_one_cancellation() -> None:
    """As `asyncio.wait_for` of Python 3.11 does when its work ends at the same moment."""
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    await asyncio.Event().wait()


async def test_a_dispatcher_that_is_ended_ends_although_a_cancellation_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would lead on after SIGTERM, and no standby could take over."""
    monkeypatch.setattr(tasks, "_AGAIN_S", 0.01)
    parts, stop = Tasks(), asyncio.Event()
    parts.start("cycle", loses_one_cancellation())
    asyncio.get_running_loop().call_soon(stop.set)
    async with asyncio.timeout(60):
        await parts.run_until(stop)
    assert [task.cancelled() for task in parts._tasks] == [True]
