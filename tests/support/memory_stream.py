"""The inbox and what else Redis holds, in memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from gpuq.adapters.redis import stream
from gpuq.adapters.redis.stream import LONGEST_BLOCK_S, Entries, Stream, valid_messages
from gpuq.core.state.job import JobId
from gpuq.errors import Unreachable
from gpuq.messages import wire


@dataclass
class MemoryServer:
    """The data of a Redis server, for `MemoryStream`. `down` makes every call fail; `flush` is FLUSHALL."""

    down: bool = False
    entries: dict[str, bytes | None] = field(default_factory=dict)
    delivered: set[str] = field(default_factory=set)
    waiting: list[JobId] = field(default_factory=list)
    view: tuple[bytes, float] | None = None
    acknowledged: dict[str, bytes] = field(default_factory=dict)
    committed: bytes | None = None
    clock: Callable[[], float] = time.time
    last_id: tuple[int, int] = (0, 0)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, raw: bytes | None) -> None:
        """Append a raw entry; None is an entry without our field. Ids are milliseconds and a counter, as in Redis."""
        self.last_id = max((int(self.clock() * 1000), 0), (self.last_id[0], self.last_id[1] + 1))
        self.entries["{}-{}".format(*self.last_id)] = raw
        for old in list(self.entries)[: len(self.entries) - stream.MAX_ENTRIES]:
            del self.entries[old]
        self.arrived.set()

    def flush(self) -> None:
        """Delete everything, as FLUSHALL does."""
        self.entries.clear()
        self.delivered.clear()
        self.waiting, self.view, self.committed = [], None, None
        self.acknowledged.clear()


class MemoryStream(Stream):
    """A `Stream` in memory. Several may share one `MemoryServer`, as processes share one Redis."""

    def __init__(self, server: MemoryServer | None = None) -> None:
        self.server = server or MemoryServer()
        self._redeliver_after: tuple[int, int] | None = (0, 0)

    async def add(self, *messages: wire.Message) -> None:
        server = self._reach()
        for message in messages:
            server.put(wire.encode(message))

    async def read(self, block_s: float, limit: int) -> list[tuple[str, wire.Message]]:
        until = asyncio.get_running_loop().time() + min(block_s, LONGEST_BLOCK_S)
        while True:
            again, entries = self._take(limit)
            if entries:
                return await valid_messages(self, entries)
            left = until - asyncio.get_running_loop().time()
            if again:
                continue
            if left <= 0:
                return []
            self.server.arrived.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self.server.arrived.wait(), left)

    async def acknowledge(self, ids: Sequence[str]) -> None:
        server = self._reach()
        for one in ids:
            server.entries.pop(one, None)
            server.delivered.discard(one)

    async def set_waiting(self, ids: Sequence[JobId]) -> None:
        self._reach().waiting = list(ids)

    async def waiting(self) -> list[JobId]:
        return list(self._reach().waiting)

    async def set_view(self, view: bytes, ttl_s: float) -> None:
        self._reach().view = (view, asyncio.get_running_loop().time() + ttl_s)

    async def view(self) -> bytes | None:
        shown = self._reach().view
        return shown[0] if shown and asyncio.get_running_loop().time() < shown[1] else None

    async def set_acknowledged(self, host: str, acknowledgement: bytes) -> None:
        self._reach().acknowledged[host] = acknowledgement

    async def acknowledged(self, host: str) -> bytes | None:
        return self._reach().acknowledged.get(host)

    async def set_committed(self, mark: bytes) -> bytes | None:
        server = self._reach()
        replaced, server.committed = server.committed, mark
        return replaced

    async def committed(self) -> bytes | None:
        return self._reach().committed

    async def time(self) -> float:
        return self._reach().clock()

    async def ping(self) -> None:
        self._reach()

    async def close(self) -> None:
        pass

    def _reach(self) -> MemoryServer:
        if self.server.down:
            self._redeliver_after = (0, 0)
            raise Unreachable("Redis at memory: is not usable: it was switched off.")
        return self.server

    def _take(self, limit: int) -> tuple[bool, Entries]:
        """(whether these are delivered again, the entries)."""
        server = self._reach()
        if self._redeliver_after is not None:
            after = self._redeliver_after
            again = [(i, raw) for i, raw in server.entries.items() if i in server.delivered and _number(i) > after]
            self._redeliver_after = _number(again[:limit][-1][0]) if again else None
            return True, again[:limit]
        new = [(i, raw) for i, raw in server.entries.items() if i not in server.delivered][:limit]
        server.delivered.update(i for i, _ in new)
        return False, new


def _number(entry_id: str) -> tuple[int, int]:
    milliseconds, _, counter = entry_id.partition("-")
    return int(milliseconds), int(counter)
