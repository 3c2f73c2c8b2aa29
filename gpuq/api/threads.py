"""Threads for calls that block, of which one user has a few at most, so that the calls of others do not wait behind theirs."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import ParamSpec, TypeVar

from gpuq.api.contract.problem import TooManyAtOnce

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Asking:
    """The request that a task answers: its user, "" until that is known, and whether its client has hung up."""

    user: str
    gone: Callable[[], bool]


ASKING: ContextVar[Asking | None] = ContextVar("asking", default=None)
"""None in gpuq's own tasks, for which there is no limit."""


class SharedThreads:
    """`count` threads, of which one user has `of_each` at a time; `most_waiting` more calls of a user wait for their turn."""

    def __init__(self, count: int, of_each: int, name: str, most_waiting: int | None = None) -> None:
        self._pool = ThreadPoolExecutor(count, thread_name_prefix=name)
        self._turns: defaultdict[str, asyncio.Semaphore] = defaultdict(partial(asyncio.Semaphore, of_each))
        self._most_waiting = most_waiting
        self._waiting: Counter[str] = Counter()

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of the call. One that is cancelled before its turn is not made. Raises TooManyAtOnce."""
        asking, work = ASKING.get(), partial(call, *args, **kwargs)
        if asking is None:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        user, turn = asking.user, self._turns[asking.user]
        if self._most_waiting is not None and self._waiting[user] >= self._most_waiting:
            raise TooManyAtOnce(f"{self._most_waiting} requests of yours wait for such a calculation already.")
        self._waiting[user] += 1
        try:
            await turn.acquire()
        finally:
            self._waiting[user] -= 1
        return await asyncio.wrap_future(self._submit(work, turn))

    def _submit(self, work: Callable[[], T], turn: asyncio.Semaphore) -> Future[T]:
        """Start the work, and end the turn with it: a thread is taken until then, also if its result is no longer wanted."""
        loop = asyncio.get_running_loop()

        def end_turn(_: object) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(turn.release)

        try:
            future = self._pool.submit(work)
        except RuntimeError:  # the process ends
            turn.release()
            raise
        future.add_done_callback(end_turn)
        return future

    def stop(self) -> None:
        """Make no more calls."""
        self._pool.shutdown(wait=False, cancel_futures=True)
