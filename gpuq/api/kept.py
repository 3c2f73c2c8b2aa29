"""Results of calculations over much of the record, shown while they are made again."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")

FIRST_WITHIN_S = 0.15
"""How long a page waits for a first result."""
_MOST = 32
_OUTDATED = 10.0
_SHARE = 0.1
"""A calculation takes at most this share of the time: one of two seconds is made again after twenty at the earliest."""


@dataclass(frozen=True)
class Kept(Generic[T]):
    """A result, when it was there (Unix seconds), and how long it took to make (seconds)."""

    value: T
    at: float
    took_s: float = 0.0


class SharedResults:
    """Results that are waited for: each is made once for all who ask for it, and kept for a while. Failures are not kept."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._made: dict[str, tuple[Hashable, float, asyncio.Task[Any]]] = {}

    async def get(self, name: str, of: Hashable, make: Callable[[], Coroutine[Any, Any, T]], for_s: float) -> T:
        """The result under this name, made again once it is older than `for_s`, or no longer `of` the same. Raises what `make`
        raises, to all who wait."""
        now = self._clock()
        kept_of, at, task = self._made.get(name, (None, now, None))
        is_good = task is not None and task.done() and not task.cancelled() and task.exception() is None
        is_new = kept_of == of and 0 <= now - at <= for_s
        if task is None or (task.done() and not (is_good and is_new)):
            task = asyncio.create_task(make(), name=name, context=Context())  # of no one user
            self._made[name] = (of, now, task)
        result: T = await asyncio.shield(task)
        return result


class KeptResults:
    """One calculation runs at a time, in a thread of its own. Not safe to use from several threads.

    Of results, of failures and of calculations that wait there are 32 at most.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kept")
        self._results: OrderedDict[Hashable, Kept[Any]] = OrderedDict()
        self._failures: OrderedDict[Hashable, BaseException] = OrderedDict()
        self._making: dict[Hashable, asyncio.Future[Any]] = {}

    async def get(self, key: Hashable, make: Callable[[], T], *, for_s: float) -> Kept[T] | None:
        """The result of `make` under `key`; one that is older than `for_s` is made again meanwhile. None while the first is made,
        or waits for others.

        Raises what `make` raised when it ran last.
        """
        self._raise_failure(key)
        found = self._results.get(key)
        age_s = float("inf") if found is None else self._clock() - found.at
        for_s = max(for_s, found.took_s / _SHARE) if found else for_s
        if not 0 <= age_s <= for_s and key not in self._making and len(self._making) < _MOST:
            self._making[key] = asyncio.get_running_loop().run_in_executor(self._thread, _timed, make)
            self._making[key].add_done_callback(partial(self._keep, key))
        # What is much older says nothing of today: as if there were none.
        if not 0 <= age_s <= _OUTDATED * for_s:
            if key in self._making:
                await asyncio.wait({self._making[key]}, timeout=FIRST_WITHIN_S)
            self._raise_failure(key)
            newest = self._results.get(key)
            return newest if newest is not found else None
        return found

    def stop(self) -> None:
        """Begin no more calculations."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _raise_failure(self, key: Hashable) -> None:
        if (error := self._failures.pop(key, None)) is not None:
            raise error

    def _keep(self, key: Hashable, made: asyncio.Future[Any]) -> None:
        del self._making[key]
        if made.cancelled():
            return
        if (error := made.exception()) is not None:
            _put(self._failures, key, error)
        else:
            value, took_s = made.result()
            _put(self._results, key, Kept(value, self._clock(), took_s))


def _put(kept: OrderedDict[Hashable, Any], key: Hashable, value: object) -> None:
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > _MOST:
        kept.popitem(last=False)


def _timed(make: Callable[[], T]) -> tuple[T, float]:
    began = time.monotonic()
    return make(), time.monotonic() - began
