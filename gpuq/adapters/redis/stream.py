"""Redis as the dispatcher's inbox, and as the place where the dispatcher shows the waiting list and its live view.

API processes and worker services add messages (`gpuq.messages.wire`), the dispatcher reads them. Everything here may vanish at
any moment (FLUSHALL, a lost server): groups and streams are created again, and the SQL database has the truth. Every error of
the server is raised as Unreachable; callers retry.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence
from typing import Protocol, TypeVar, cast

import msgspec
from redis.exceptions import ResponseError

from gpuq.adapters.redis.link import async_client, delete_unusable, is_of_another_type, on_key, reaching
from gpuq.core.state.job import JobId
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
                return await valid_messages(self, again)
        # Until the answer has arrived, the server may have delivered messages that we never saw.
        self._redeliver_after = "0"
        new = await self._entries(">", max(1, int(min(block_s, LONGEST_BLOCK_S) * 1000)), limit)
        self._redeliver_after = None
        return await valid_messages(self, new)

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


def sent_at(entry_id: str) -> float:
    """When a message was added, in Unix seconds by the server's clock: its id begins with the milliseconds."""
    return int(entry_id.partition("-")[0]) / 1000


async def valid_messages(stream: Stream, entries: Entries) -> list[tuple[str, wire.Message]]:
    """The messages with their ids. Invalid entries are logged without their content, and deleted."""
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
