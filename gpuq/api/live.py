"""Reads the live view that the dispatcher wrote to Redis a moment ago (`gpuq.messages.live`).

`Live.view` is None when there is no view, when it is too old, or when it cannot be read. The API then shows every live number as
unknown; a missing view never becomes zeros.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import msgspec

from gpuq.errors import Unreachable
from gpuq.messages.launch import NOT_JSON
from gpuq.messages.live import LiveView, decode
from gpuq.messages.wire import Message

_REUSE_S = 0.2

DispatcherSign = Literal["ok", "stale", "absent"]
"""`stale`: no heartbeat for longer than `stale_after_s`; `absent`: none since this process began."""


class Live(msgspec.Struct, frozen=True):
    """What one look at Redis found."""

    view: LiveView | None
    redis_up: bool
    age_s: float | None = None
    """Seconds since the dispatcher's last heartbeat; None where there was none."""
    dispatcher: DispatcherSign = "absent"


class DispatcherLink(Protocol):
    """What the API needs of Redis, which connects it to the dispatcher. Calls raise `gpuq.errors.Unreachable`."""

    async def view(self) -> bytes | None:
        """The dispatcher's latest live view as JSON; None if there is none."""
        ...

    async def waiting(self) -> Sequence[int]:
        """The waiting jobs' ids in the order in which they will start."""
        ...

    async def add(self, message: Message, /) -> object:
        """Put one message into the dispatcher's inbox."""
        ...

    async def ping(self) -> None:
        """Return if Redis answers and takes a write."""
        ...


class LiveReader:
    """Reads the view at most five times a second, however many ask. `clock` is wall time, as in the view."""

    def __init__(
        self,
        source: DispatcherLink,
        clock: Callable[[], float],
        stale_after_s: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._clock = clock
        self._monotonic = monotonic
        self._stale_after_s = stale_after_s
        self._last: Live | None = None
        self._raw: bytes | None = None
        self._view: LiveView | None = None
        self._read_at = self._pinged_at = float("-inf")
        self._sign = Unreachable.sign
        self._pinging = asyncio.Lock()
        self._seen: float | None = None
        self._written_at = 0.0

    async def probe(self) -> tuple[Live, str]:
        """The view of now, and `ok` or what is wrong with Redis: `unreachable`, `refused` for a login that it refuses,
        `full` where it takes no more connections, `unwritable` where it takes no write, `shared` where another gpuq uses
        the same database of it."""
        async with self._pinging:  # anyone may ask, many at once, and each ping is a write
            if self._monotonic() - self._pinged_at >= _REUSE_S:
                self._sign = await self._ping()
                self._pinged_at = self._monotonic()
            sign = self._sign
        if sign == Unreachable.sign:
            return Live(None, redis_up=False), sign  # to ask it again would take as long once more
        live = await self.read()
        is_shared = live.view is not None and live.view.dispatcher.shares_redis
        return live, "shared" if sign == "ok" and is_shared else sign

    async def _ping(self) -> str:
        try:
            await self._source.ping()
        except Unreachable as error:
            return error.sign
        return "ok"

    async def read(self) -> Live:
        """The view of now. Never raises for a Redis that is away."""
        now = self._clock()
        if self._last is None or not 0 <= now - self._read_at < _REUSE_S:
            self._last = await self._look(now)
            self._read_at = now
        return self._last

    async def _look(self, now: float) -> Live:
        try:
            raw = await self._source.view()
        except Unreachable:
            return Live(None, redis_up=False)
        if raw != self._raw:
            self._raw, self._view = raw, _decoded(raw)
        view = self._view
        if view is not None and view.at != self._seen:
            # From here on its age is counted by a clock that is never set.
            self._seen, self._written_at = view.at, self._monotonic() - max(0.0, now - view.at)
        if self._seen is None:
            return Live(None, redis_up=True)
        # Redis forgets a view after a while: how long ago the last one was is remembered here.
        age = self._monotonic() - self._written_at
        fresh = age <= self._stale_after_s
        return Live(view if fresh else None, redis_up=True, age_s=age, dispatcher="ok" if fresh else "stale")


def _decoded(raw: bytes | None) -> LiveView | None:
    try:
        return None if raw is None else decode(raw)
    except NOT_JSON:
        return None
