"""Results of calculations over much of the record, shown while they are made again."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
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


class KeptResults:
    """One calculation runs at a time, in a thread of its own. Not safe to use from several threads."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kept")
        self._results: OrderedDict[Hashable, Kept[Any]] = OrderedDict()
        self._making: dict[Hashable, asyncio.Future[Any]] = {}

    async def get(self, key: Hashable, make: Callable[[], T], *, for_s: float) -> Kept[T] | None:
        """The result of `make` under `key`; one that is older than `for_s` is made again meanwhile. None while the first is made.

        Raises what `make` raised when it ran last.
        """
        self._take_finished(key)
        found = self._results.get(key)
        age_s = float("inf") if found is None else self._clock() - found.at
        for_s = max(for_s, found.took_s / _SHARE) if found else for_s
        if not 0 <= age_s <= for_s and key not in self._making:
            self._making[key] = asyncio.get_running_loop().run_in_executor(self._thread, _timed, make)
        # What is much older says nothing of today: as if there were none.
        if not 0 <= age_s <= _OUTDATED * for_s:
            await asyncio.wait({self._making[key]}, timeout=FIRST_WITHIN_S)
            self._take_finished(key)
            newest = self._results.get(key)  # another call that waited for the same may have taken it
            return newest if newest is not found else None
        return found

    def stop(self) -> None:
        """Begin no more calculations."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _take_finished(self, key: Hashable) -> None:
        """Keep the result that was made under `key`. Raises what its calculation raised."""
        making = self._making.get(key)
        if making is None or not making.done():
            return
        del self._making[key]
        value, took_s = making.result()
        self._results[key] = Kept(value, self._clock(), took_s)
        self._results.move_to_end(key)
        while len(self._results) > _MOST:
            self._results.popitem(last=False)


def _timed(make: Callable[[], T]) -> tuple[T, float]:
    began = time.monotonic()
    return make(), time.monotonic() - began
