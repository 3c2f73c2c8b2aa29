"""Redis as the place where messages for the dispatcher stand in line, and where it shows what it sees.

Arrives: messages (`gpuq.messages.wire`) from APIs and worker services; the waiting list, the live view and the acknowledgements
from the dispatcher. Leaves: the same, to whoever asks. Everything here may vanish at any moment (FLUSHALL, a lost
server): groups and streams are made again, and the record in SQL stays the truth. Every fault of the server is
Unreachable; callers retry.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar, cast

from redis.exceptions import ResponseError

from gpuq.adapters.redis.link import async_client, reaching
from gpuq.core.state.job import JobId
from gpuq.errors import Unreachable
from gpuq.messages import wire

# A report a second from 100 hosts fills this in a quarter of an hour without a dispatcher. The oldest go first: reports
# are meant to be lost, events are sent again, requests are in the record.
MAX_ENTRIES = 100_000
# Longer than this no read blocks, so that a dead connection is told from an empty inbox.
LONGEST_BLOCK_S = 2.0
_CONSUMER = "dispatcher"
_FIELD = b"message"
_log = logging.getLogger(__name__)
T = TypeVar("T")

Entries = list[tuple[str, bytes | None]]


class Stream(Protocol):
    """The inbox, the waiting list, the live view and the acknowledgements. All calls may raise Unreachable."""

    async def add(self, *messages: wire.Message) -> None:
        """Put messages into the inbox, in order."""
        ...

    async def read(self, block_s: float, limit: int) -> list[tuple[str, wire.Message]]:
        """The next messages with their ids, at most `limit`; empty when `block_s` or two seconds passed without any.

        For the one consumer. After a restart, an error or a cancelled read it hands out once more, and first, what was
        handed out and not acknowledged: so a message may come twice, and none is skipped.
        """
        ...

    async def acknowledge(self, ids: Sequence[str]) -> None:
        """These are done with: forget them."""
        ...

    async def set_waiting(self, ids: Sequence[JobId]) -> None:
        """Replace the list of waiting jobs, first to start first; readers see the old or the new list."""
        ...

    async def waiting(self) -> list[JobId]:
        """The waiting jobs in the dispatcher's order; empty also when Redis lost them."""
        ...

    async def set_view(self, view: bytes, ttl_s: float) -> None:
        """Show this for `ttl_s` seconds."""
        ...

    async def view(self) -> bytes | None:
        """What the dispatcher showed last; None once it has expired."""
        ...

    async def set_acknowledged(self, host: str, seq: int) -> None:
        """Everything from this host up to spool number `seq` is committed."""
        ...

    async def acknowledged(self, host: str) -> int | None:
        """Up to which spool number this host's events are committed; None if Redis does not know."""
        ...

    async def ping(self) -> None:
        """Return if messages can be exchanged now."""
        ...

    async def close(self) -> None:
        """Let go of the connections."""
        ...


class RedisStream:
    """The real one. One object per process and event loop."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client = async_client(url)
        # Where the next read goes on among what was handed out before; None: nothing is owed, read what is new.
        self._owed_after: str | None = "0"

    async def add(self, *messages: wire.Message) -> None:
        """See Stream."""
        with reaching(self._url):
            async with self._client.pipeline(transaction=False) as pipe:
                for message in messages:
                    pipe.xadd(wire.INBOX, {_FIELD: wire.encode(message)}, maxlen=MAX_ENTRIES, approximate=True)
                await pipe.execute()

    async def read(self, block_s: float, limit: int) -> list[tuple[str, wire.Message]]:
        """See Stream."""
        if self._owed_after is not None:
            owed = await self._entries(self._owed_after, None, limit)
            self._owed_after = owed[-1][0] if owed else None
            if owed:
                return await self._sound(owed)
        # Until the answer is in hand, the server may have handed out what we never saw.
        self._owed_after = "0"
        new = await self._entries(">", max(1, int(min(block_s, LONGEST_BLOCK_S) * 1000)), limit)
        self._owed_after = None
        return await self._sound(new)

    async def acknowledge(self, ids: Sequence[str]) -> None:
        """See Stream."""
        if not ids:
            return
        with reaching(self._url):
            async with self._client.pipeline(transaction=True) as pipe:
                pipe.xack(wire.INBOX, wire.INBOX_GROUP, *ids)
                pipe.xdel(wire.INBOX, *ids)
                await pipe.execute()

    async def set_waiting(self, ids: Sequence[JobId]) -> None:
        """See Stream."""
        with reaching(self._url):
            async with self._client.pipeline(transaction=True) as pipe:
                pipe.delete(wire.WAITING)
                if ids:
                    pipe.rpush(wire.WAITING, *ids)
                await pipe.execute()

    async def waiting(self) -> list[JobId]:
        """See Stream."""
        raw = await self._ask(cast(Awaitable[list[bytes]], self._client.lrange(wire.WAITING, 0, -1)))
        return [JobId(int(one)) for one in raw if one.isdigit()]

    async def set_view(self, view: bytes, ttl_s: float) -> None:
        """See Stream."""
        await self._ask(self._client.set(wire.VIEW, view, px=max(1, int(ttl_s * 1000))))

    async def view(self) -> bytes | None:
        """See Stream."""
        return await self._ask(cast(Awaitable[bytes | None], self._client.get(wire.VIEW)))

    async def set_acknowledged(self, host: str, seq: int) -> None:
        """See Stream."""
        await self._ask(self._client.set(wire.acknowledged_key(host), seq))

    async def acknowledged(self, host: str) -> int | None:
        """See Stream."""
        raw = await self._ask(cast(Awaitable[bytes | None], self._client.get(wire.acknowledged_key(host))))
        return int(raw) if raw is not None and raw.isdigit() else None

    async def ping(self) -> None:
        """See Stream."""
        await self._ask(self._client.ping())

    async def close(self) -> None:
        """See Stream."""
        await self._client.aclose()

    async def _ask(self, command: Awaitable[T]) -> T:
        with reaching(self._url):
            return await command

    async def _entries(self, after: str, block_ms: int | None, limit: int) -> Entries:
        """What XREADGROUP hands out; the group is made, reading from the first entry there is, if it is not there."""
        with reaching(self._url):
            try:
                return await self._read_group(after, block_ms, limit)
            except ResponseError as error:
                if not str(error).startswith("NOGROUP"):
                    raise
            await self._make_group()
            return await self._read_group(after, block_ms, limit)

    async def _read_group(self, after: str, block_ms: int | None, limit: int) -> Entries:
        answer = await cast(
            Awaitable[list[tuple[bytes, list[tuple[bytes, dict[bytes, bytes] | None]]]]],
            self._client.xreadgroup(wire.INBOX_GROUP, _CONSUMER, {wire.INBOX: after}, count=limit, block=block_ms),
        )
        return [(id_.decode(), (fields or {}).get(_FIELD)) for _, entries in answer for id_, fields in entries]

    async def _make_group(self) -> None:
        try:
            await self._client.xgroup_create(wire.INBOX, wire.INBOX_GROUP, id="0", mkstream=True)
        except ResponseError as error:
            if not str(error).startswith("BUSYGROUP"):
                raise

    async def _sound(self, entries: Entries) -> list[tuple[str, wire.Message]]:
        sound, unsound = _decoded(entries)
        await self.acknowledge(unsound)
        return sound


@dataclass
class MemoryServer:
    """What a Redis server would hold, for `MemoryStream`. `down` makes every call fail; `flush` is FLUSHALL."""

    down: bool = False
    entries: dict[str, bytes | None] = field(default_factory=dict)
    handed_out: set[str] = field(default_factory=set)
    waiting: list[JobId] = field(default_factory=list)
    view: tuple[bytes, float] | None = None
    acknowledged: dict[str, int] = field(default_factory=dict)
    last_id: int = 0
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, raw: bytes | None) -> None:
        """Append a raw entry; None stands for one without our field."""
        self.last_id += 1
        self.entries[f"{self.last_id}-0"] = raw
        for old in list(self.entries)[: len(self.entries) - MAX_ENTRIES]:
            del self.entries[old]
        self.arrived.set()

    def flush(self) -> None:
        """Lose everything, as FLUSHALL does."""
        self.entries.clear()
        self.handed_out.clear()
        self.waiting, self.view = [], None
        self.acknowledged.clear()


class MemoryStream:
    """The twin for tests: many may share one `MemoryServer`, as many processes share one Redis."""

    def __init__(self, server: MemoryServer | None = None) -> None:
        self.server = server or MemoryServer()
        self._owed_after: int | None = 0

    async def add(self, *messages: wire.Message) -> None:
        """See Stream."""
        server = self._reach()
        for message in messages:
            server.put(wire.encode(message))

    async def read(self, block_s: float, limit: int) -> list[tuple[str, wire.Message]]:
        """See Stream."""
        until = asyncio.get_running_loop().time() + min(block_s, LONGEST_BLOCK_S)
        while True:
            owed, entries = self._take(limit)
            if entries:
                sound, unsound = _decoded(entries)
                await self.acknowledge(unsound)
                return sound
            left = until - asyncio.get_running_loop().time()
            if owed:
                continue
            if left <= 0:
                return []
            await self._arrival(left)

    async def acknowledge(self, ids: Sequence[str]) -> None:
        """See Stream."""
        server = self._reach()
        for one in ids:
            server.entries.pop(one, None)
            server.handed_out.discard(one)

    async def set_waiting(self, ids: Sequence[JobId]) -> None:
        """See Stream."""
        self._reach().waiting = list(ids)

    async def waiting(self) -> list[JobId]:
        """See Stream."""
        return list(self._reach().waiting)

    async def set_view(self, view: bytes, ttl_s: float) -> None:
        """See Stream."""
        self._reach().view = (view, asyncio.get_running_loop().time() + ttl_s)

    async def view(self) -> bytes | None:
        """See Stream."""
        shown = self._reach().view
        return shown[0] if shown and asyncio.get_running_loop().time() < shown[1] else None

    async def set_acknowledged(self, host: str, seq: int) -> None:
        """See Stream."""
        self._reach().acknowledged[host] = seq

    async def acknowledged(self, host: str) -> int | None:
        """See Stream."""
        return self._reach().acknowledged.get(host)

    async def ping(self) -> None:
        """See Stream."""
        self._reach()

    async def close(self) -> None:
        """See Stream."""

    def _reach(self) -> MemoryServer:
        if self.server.down:
            self._owed_after = 0
            raise Unreachable("Redis at memory: is not usable: it was switched off.")
        return self.server

    def _take(self, limit: int) -> tuple[bool, Entries]:
        """Whether these were owed from before, and the entries."""
        server = self._reach()
        if self._owed_after is not None:
            after = self._owed_after
            owed = [(i, raw) for i, raw in server.entries.items() if i in server.handed_out and _number(i) > after]
            self._owed_after = _number(owed[:limit][-1][0]) if owed else None
            return True, owed[:limit]
        new = [(i, raw) for i, raw in server.entries.items() if i not in server.handed_out][:limit]
        server.handed_out.update(i for i, _ in new)
        return False, new

    async def _arrival(self, within_s: float) -> None:
        self.server.arrived.clear()
        try:
            await asyncio.wait_for(self.server.arrived.wait(), within_s)
        except TimeoutError:
            return


def _number(entry_id: str) -> int:
    return int(entry_id.partition("-")[0])


def _decoded(entries: Iterable[tuple[str, bytes | None]]) -> tuple[list[tuple[str, wire.Message]], list[str]]:
    """The messages, and the ids of entries that are none; those are named in the log without their content."""
    sound: list[tuple[str, wire.Message]] = []
    unsound: list[str] = []
    for entry_id, raw in entries:
        try:
            if raw is None:
                raise ValueError("it has no message")
            sound.append((entry_id, wire.decode(raw)))
        except ValueError as error:
            _log.warning("dropped entry %s of the inbox: %.200s", entry_id, error)
            unsound.append(entry_id)
    return sound, unsound
