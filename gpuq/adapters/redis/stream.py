"""Redis as the dispatcher's inbox, and as the place where the dispatcher shows the waiting list and its live view.

API processes and worker services add messages (`gpuq.messages.wire`), the dispatcher reads them. Everything here may vanish at
any moment (FLUSHALL, a lost server): groups and streams are created again, and the SQL database has the truth. Every error of
the server is raised as Unreachable; callers retry.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol, TypeVar, cast

import msgspec
from redis.exceptions import ResponseError

from gpuq.adapters.redis.link import async_client, delete_unusable, is_of_another_type, on_key, reaching
from gpuq.core.state.job import JobId
from gpuq.errors import Unreachable
from gpuq.messages import wire

# Without a dispatcher, reports of 100 hosts fill this in a quarter of an hour. The oldest entries are dropped, which loses
# nothing: reports are repeated, events are sent again, requests are in the database.
MAX_ENTRIES = 100_000
# No read blocks longer than this, so that a dead connection can be distinguished from an empty inbox.
LONGEST_BLOCK_S = 2.0
_CONSUMER = "dispatcher"
_WRITTEN_LIVES_MS = 1000
_FIELD = b"message"
_ids = msgspec.json.Decoder(list[JobId])
_log = logging.getLogger(__name__)
T = TypeVar("T")

Entries = list[tuple[str, bytes | None]]


class Stream(Protocol):
    """The inbox, the waiting list, the live view and the acknowledgements. All calls may raise Unreachable."""

    async def add(self, *messages: wire.Message) -> None:
        """Put messages into the inbox, in order."""
        ...

    async def read(self, block_s: float, limit: int) -> list[tuple[str, wire.Message]]:
        """The next messages with their ids, at most `limit`; empty after `block_s`, or two seconds, without any.

        There is one consumer. After a restart, an error or a cancelled read, messages that were delivered and not acknowledged
        are delivered again first. So a message may be delivered twice and none is skipped.
        """
        ...

    async def acknowledge(self, ids: Sequence[str]) -> None:
        """Delete these messages: they are handled."""
        ...

    async def set_waiting(self, ids: Sequence[JobId]) -> None:
        """Replace the list of waiting jobs, in the order of their start. Atomic for readers."""
        ...

    async def waiting(self) -> list[JobId]:
        """The waiting jobs in the dispatcher's order; also empty if Redis lost the list, or has a value of another type there."""
        ...

    async def set_view(self, view: bytes, ttl_s: float) -> None:
        """Publish the live view for `ttl_s` seconds."""
        ...

    async def view(self) -> bytes | None:
        """The latest live view; None once it has expired, or if Redis has a value of another type there."""
        ...

    async def set_acknowledged(self, host: str, acknowledgement: bytes) -> None:
        """Publish an acknowledgement to this host, in place of the last one."""
        ...

    async def acknowledged(self, host: str) -> bytes | None:
        """The latest acknowledgement to this host; None if Redis has none, or a value of another type there."""
        ...

    async def set_committed(self, mark: bytes) -> bytes | None:
        """Publish the mark of the last commit; the one that it replaces, None if Redis had none, or a value of another type."""
        ...

    async def committed(self) -> bytes | None:
        """The mark of the last commit; None if Redis has none, or a value of another type there."""
        ...

    async def time(self) -> float:
        """The server's time, by which messages get their ids, in Unix seconds."""
        ...

    async def ping(self) -> None:
        """Return if the server answers and takes a write."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


class RedisStream(Stream):
    """A `Stream` on a Redis server. One object per process and event loop."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client = async_client(url)
        # The id after which unacknowledged messages are delivered again; None: all were, read new ones.
        self._redeliver_after: str | None = "0"

    async def add(self, *messages: wire.Message) -> None:
        with reaching(self._url):
            await on_key(self._client, wire.INBOX, lambda: self._add(messages))

    async def _add(self, messages: Sequence[wire.Message]) -> None:
        async with self._client.pipeline(transaction=False) as pipe:
            for message in messages:
                pipe.xadd(wire.INBOX, {_FIELD: wire.encode(message)}, maxlen=MAX_ENTRIES, approximate=True)
            await pipe.execute()

    async def read(self, block_s: float, limit: int) -> list[tuple[str, wire.Message]]:
        if self._redeliver_after is not None:
            again = await self._entries(self._redeliver_after, None, limit)
            self._redeliver_after = again[-1][0] if again else None
            if again:
                return await _valid(self, again)
        # Until the answer has arrived, the server may have delivered messages that we never saw.
        self._redeliver_after = "0"
        new = await self._entries(">", max(1, int(min(block_s, LONGEST_BLOCK_S) * 1000)), limit)
        self._redeliver_after = None
        return await _valid(self, new)

    async def acknowledge(self, ids: Sequence[str]) -> None:
        if not ids:
            return
        with reaching(self._url):
            async with self._client.pipeline(transaction=True) as pipe:
                pipe.xack(wire.INBOX, wire.INBOX_GROUP, *ids)
                pipe.xdel(wire.INBOX, *ids)
                await pipe.execute()

    async def set_waiting(self, ids: Sequence[JobId]) -> None:
        with reaching(self._url):
            async with self._client.pipeline(transaction=True) as pipe:
                pipe.delete(wire.WAITING, wire.FORMER_WAITING)
                if ids:
                    pipe.set(wire.WAITING, ",".join(map(str, ids)))
                await pipe.execute()

    async def waiting(self) -> list[JobId]:
        raw = await self._value(wire.WAITING)
        try:
            return _ids.decode(b"[%b]" % (raw or b""))
        except msgspec.MsgspecError:  # not what the dispatcher wrote
            return []

    async def set_view(self, view: bytes, ttl_s: float) -> None:
        await self._ask(self._client.set(wire.VIEW, view, px=max(1, int(ttl_s * 1000))))

    async def view(self) -> bytes | None:
        return await self._value(wire.VIEW)

    async def set_acknowledged(self, host: str, acknowledgement: bytes) -> None:
        await self._ask(self._client.set(wire.acknowledged_key(host), acknowledgement))

    async def acknowledged(self, host: str) -> bytes | None:
        return await self._value(wire.acknowledged_key(host))

    async def set_committed(self, mark: bytes) -> bytes | None:
        with reaching(self._url):
            try:
                return cast(bytes | None, await self._client.set(wire.COMMITTED, mark, get=True))
            except ResponseError as error:
                if not is_of_another_type(error):
                    raise
                await self._client.set(wire.COMMITTED, mark)
                return None

    async def committed(self) -> bytes | None:
        return await self._value(wire.COMMITTED)

    async def time(self) -> float:
        seconds, microseconds = await self._ask(self._client.time())
        return seconds + microseconds / 1e6

    async def ping(self) -> None:
        await self._ask(self._client.set(wire.WRITTEN, b"", px=_WRITTEN_LIVES_MS))

    async def close(self) -> None:
        await self._client.aclose()

    async def _value(self, key: str) -> bytes | None:
        with reaching(self._url):
            try:
                return await cast(Awaitable[bytes | None], self._client.get(key))
            except ResponseError as error:
                if not is_of_another_type(error):
                    raise
                return None

    async def _ask(self, command: Awaitable[T]) -> T:
        with reaching(self._url):
            return await command

    async def _entries(self, after: str, block_ms: int | None, limit: int) -> Entries:
        """Entries from XREADGROUP. A missing group is created first, reading from the oldest entry."""
        with reaching(self._url):
            try:
                return await self._read_group(after, block_ms, limit)
            except ResponseError as error:
                if not str(error).startswith("NOGROUP"):
                    await delete_unusable(self._client, wire.INBOX, error)
            try:
                await self._client.xgroup_create(wire.INBOX, wire.INBOX_GROUP, id="0", mkstream=True)
            except ResponseError as error:
                if not str(error).startswith("BUSYGROUP"):  # another reader has just created it
                    raise
            return await self._read_group(after, block_ms, limit)

    async def _read_group(self, after: str, block_ms: int | None, limit: int) -> Entries:
        answer = await cast(
            Awaitable[list[tuple[bytes, list[tuple[bytes, dict[bytes, bytes] | None]]]]],
            self._client.xreadgroup(wire.INBOX_GROUP, _CONSUMER, {wire.INBOX: after}, count=limit, block=block_ms),
        )
        return [(id_.decode(), (fields or {}).get(_FIELD)) for _, entries in answer for id_, fields in entries]


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
        for old in list(self.entries)[: len(self.entries) - MAX_ENTRIES]:
            del self.entries[old]
        self.arrived.set()

    def flush(self) -> None:
        """Delete everything, as FLUSHALL does."""
        self.entries.clear()
        self.delivered.clear()
        self.waiting, self.view, self.committed = [], None, None
        self.acknowledged.clear()


class MemoryStream(Stream):
    """A `Stream` in memory, for tests. Several may share one `MemoryServer`, as processes share one Redis."""

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
                return await _valid(self, entries)
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


def sent_at(entry_id: str) -> float:
    """When a message was added, in Unix seconds by the server's clock: its id begins with the milliseconds."""
    return int(entry_id.partition("-")[0]) / 1000


def _number(entry_id: str) -> tuple[int, int]:
    milliseconds, _, counter = entry_id.partition("-")
    return int(milliseconds), int(counter)


async def _valid(stream: Stream, entries: Entries) -> list[tuple[str, wire.Message]]:
    """The valid messages with their ids. Invalid entries are logged without their content, and deleted."""
    valid: list[tuple[str, wire.Message]] = []
    invalid: list[str] = []
    for entry_id, raw in entries:
        try:
            if raw is None:
                raise ValueError("it has no message")
            valid.append((entry_id, wire.decode(raw)))
        except ValueError as error:
            _log.warning("dropped entry %s of the inbox: %.200s", entry_id, error, extra={"action": "drop_entry"})
            invalid.append(entry_id)
    await stream.acknowledge(invalid)
    return valid
