"""One contract for the real stream and its twin; then what only a real server can do to us."""

import asyncio
import contextlib
import logging
import time

import pytest

from gpuq.adapters.redis import stream as stream_module
from gpuq.adapters.redis.stream import RedisStream, sent_at
from gpuq.core.state.job import JobId
from gpuq.errors import Unreachable
from gpuq.messages import wire
from tests.support.memory_stream import MemoryServer, MemoryStream
from tests.support.patience import Stopwatch

RINGS = [wire.Spooled("node", seq, "Started", {"seq": seq}) for seq in range(1, 8)]


class RealPlace:
    def __init__(self, server):
        self.server = server

    def open(self):
        return RedisStream(self.server.url)

    def flush(self):
        with self.server.client() as client:
            client.flushall()

    def forget_group(self):
        with self.server.client() as client:
            client.xgroup_destroy(wire.INBOX, wire.INBOX_GROUP)

    def put_raw(self, raw):
        with self.server.client() as client:
            client.xadd(wire.INBOX, {"other": b"x"} if raw is None else {"message": raw})

    def length(self):
        with self.server.client() as client:
            return client.xlen(wire.INBOX)

    def down(self):
        self.server.kill()

    def up(self):
        self.server.start()


class MemoryPlace:
    def __init__(self):
        self.server = MemoryServer()

    def open(self):
        return MemoryStream(self.server)

    def flush(self):
        self.server.flush()

    def forget_group(self):
        self.server.delivered.clear()

    def put_raw(self, raw):
        self.server.put(raw)

    def length(self):
        return len(self.server.entries)

    def down(self):
        self.server.down = True

    def up(self):
        self.server.down = False


@pytest.fixture(params=["redis", "memory"])
def place(request):
    return MemoryPlace() if request.param == "memory" else RealPlace(request.getfixturevalue("redis_server"))


@pytest.fixture
async def opened(place):
    """Opens streams as processes would, and closes them all."""
    async with contextlib.AsyncExitStack() as stack:

        def open_one():
            one = place.open()
            stack.push_async_callback(one.close)
            return one

        yield open_one


@pytest.fixture
def stream(opened):
    return opened()


async def all_there_is(stream, limit=100):
    """Read until nothing more comes."""
    ids, messages = [], []
    while got := await stream.read(0.01, limit):
        ids += [one for one, _ in got]
        messages += [message for _, message in got]
    return ids, messages


async def test_every_message_type_round_trips(stream):
    sent = [wire.WakeUp(), wire.Spooled("node", 7, "Exited", {"exit_code": 3}), wire.HostReport("node", 7, {"at": 1.5})]
    await stream.add(*sent)
    assert (await all_there_is(stream))[1] == sent


async def test_messages_come_in_order_and_at_most_limit(stream, opened):
    for message in RINGS:
        await opened().add(message)
    first = await stream.read(0.01, 3)
    assert [message for _, message in first] == RINGS[:3]
    assert (await all_there_is(stream))[1] == RINGS[3:]


async def test_reading_an_empty_inbox_returns_after_block_s(stream):
    watch, started = Stopwatch(), time.monotonic()
    assert await stream.read(0.05, 10) == []
    assert time.monotonic() - started > 0.03
    assert watch.seconds < 1.0


async def test_a_blocked_read_returns_at_once_on_a_message(stream, opened):
    reading = asyncio.create_task(stream.read(60.0, 10))
    await asyncio.sleep(0)
    watch = Stopwatch()
    await opened().add(wire.WakeUp())
    assert [message for _, message in await reading] == [wire.WakeUp()]
    assert watch.seconds < 1.0


async def test_unacknowledged_messages_come_first_after_a_restart(stream, opened):
    await stream.add(*RINGS[:4])
    ids, _ = await all_there_is(stream)
    await stream.acknowledge(ids[:2])
    await stream.add(*RINGS[4:])
    again = opened()
    assert [message for _, message in await again.read(0.01, 100)] == RINGS[2:4]
    assert [message for _, message in await again.read(0.01, 100)] == RINGS[4:]


async def test_redelivered_messages_come_in_pages_and_once(stream, opened):
    await stream.add(*RINGS)
    await all_there_is(stream)
    again = opened()
    pages = [await again.read(0.01, 3) for _ in range(4)]
    assert [[message for _, message in page] for page in pages] == [RINGS[:3], RINGS[3:6], RINGS[6:], []]


async def test_acknowledged_messages_are_deleted(place, stream, opened):
    await stream.add(*RINGS)
    ids, _ = await all_there_is(stream)
    await stream.acknowledge(ids)
    await stream.acknowledge(ids)
    await stream.acknowledge([])
    assert place.length() == 0
    assert await opened().read(0.01, 10) == []


async def test_reads_work_after_a_flush(place, stream):
    await stream.add(RINGS[0])
    ids, _ = await all_there_is(stream)
    place.flush()
    await stream.acknowledge(ids)
    await stream.add(RINGS[1])
    assert (await all_there_is(stream))[1] == [RINGS[1]]


async def test_a_vanished_group_starts_from_the_first_entry(place, stream):
    await stream.add(*RINGS[:2])
    ids, _ = await all_there_is(stream)
    await stream.acknowledge(ids[:1])
    await stream.add(RINGS[2])
    place.forget_group()
    assert (await all_there_is(stream))[1] == RINGS[1:3]


@pytest.mark.parametrize("raw", [None, b"", b"not json", b"\xff\xfe", b'{"type": "evil"}', b"[" * 3000])
async def test_an_invalid_entry_is_dropped_with_a_warning(place, stream, caplog, raw):
    await stream.add(RINGS[0])
    place.put_raw(raw)
    await stream.add(RINGS[1])
    with caplog.at_level(logging.WARNING):
        ids, messages = await all_there_is(stream)
    assert messages == RINGS[:2]
    assert len([record for record in caplog.records if "dropped entry" in record.message]) == 1
    await stream.acknowledge(ids)
    assert place.length() == 0


async def test_every_call_is_unreachable_while_the_server_is_down(place, stream):
    await stream.add(*RINGS)
    ids, _ = await all_there_is(stream)
    place.down()
    calls = [
        stream.add(wire.WakeUp()),
        stream.read(0.01, 10),
        stream.acknowledge(ids),
        stream.set_waiting([JobId(1)]),
        stream.waiting(),
        stream.set_view(b"x", 1.0),
        stream.view(),
        stream.set_acknowledged("node", b"1"),
        stream.acknowledged("node"),
        stream.time(),
        stream.ping(),
    ]
    for call in calls:
        with pytest.raises(Unreachable):
            await call
    place.up()
    await stream.ping()
    assert (await all_there_is(stream))[1] == RINGS  # owed again: an answer may have been lost with the connection


async def test_the_waiting_list_is_replaced(place, stream, opened):
    assert await stream.waiting() == []
    await stream.set_waiting([JobId(3), JobId(1), JobId(2)])
    assert await opened().waiting() == [3, 1, 2]
    await stream.set_waiting([JobId(9)])
    assert await opened().waiting() == [9]
    await stream.set_waiting([])
    assert await opened().waiting() == []
    await stream.set_waiting([JobId(number) for number in range(10_000)])
    assert len(await opened().waiting()) == 10_000
    place.flush()
    assert await opened().waiting() == []


async def test_the_view_expires(stream, opened):
    assert await stream.view() is None
    await stream.set_view(b'{"devices": []}', 60.0)
    assert await opened().view() == b'{"devices": []}'
    await stream.set_view(b"short", 0.02)
    async with asyncio.timeout(60):
        while await stream.view() is not None:
            await asyncio.sleep(0.01)


async def test_acknowledgements_are_per_host_and_unknown_is_none(place, stream, opened):
    await stream.set_acknowledged("a", b"first")
    await stream.set_acknowledged("a", b"second")
    await stream.set_acknowledged("b", b"third")
    other = opened()
    assert [await other.acknowledged(host) for host in ("a", "b", "c")] == [b"second", b"third", None]
    place.flush()
    assert await other.acknowledged("b") is None


async def test_an_id_says_when_its_message_was_sent_by_the_servers_clock(stream):
    before = await stream.time()
    await stream.add(*RINGS[:2])
    ids, _ = await all_there_is(stream)
    after = await stream.time()
    assert len(set(ids)) == 2
    assert all(before - 0.001 <= sent_at(one) <= after for one in ids), "ids count whole milliseconds"


async def test_the_inbox_is_bounded_and_loses_the_oldest(place, stream, monkeypatch):
    monkeypatch.setattr(stream_module, "MAX_ENTRIES", 1000)
    for start in range(0, 3000, 500):
        await stream.add(*[wire.Spooled("node", seq, "Started", {}) for seq in range(start, start + 500)])
    assert place.length() <= 1200  # Redis drops whole nodes of a hundred entries
    assert (await all_there_is(stream))[1][-1].seq == 2999


# --- what only a real server does ------------------------------------------------------------------------------------


@pytest.fixture
async def real(redis_server):
    stream = RedisStream(redis_server.url)
    yield stream
    await stream.close()


async def blocked_read(client, stream):
    """A read that waits for the answer, and that the server knows to be waiting.

    The server may know before the library has ended its sending, in which a cancellation may be lost (gpuq/adapters/tasks.py):
    that takes some turns of the loop.
    """
    reading = asyncio.create_task(stream.read(60.0, 10))
    while client.info("clients")["blocked_clients"] == 0:
        assert not reading.done()
        await asyncio.sleep(0.01)
    for _ in range(10):
        await asyncio.sleep(0)
    return reading


async def test_a_cancelled_read_loses_no_message(redis_server, real):
    with redis_server.client() as client:
        reading = await blocked_read(client, real)
        client.xadd(wire.INBOX, {"message": wire.encode(RINGS[0])})  # no await: our loop cannot have seen the answer
        assert client.xpending(wire.INBOX, wire.INBOX_GROUP)["pending"] == 1
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert (await all_there_is(real))[1] == RINGS[:1]


async def test_a_waiting_read_survives_a_flush(redis_server, real):
    with redis_server.client() as client:
        reading = await blocked_read(client, real)
        client.flushall()
    await real.add(RINGS[0])
    got = await reading or await real.read(2.0, 10)
    assert [message for _, message in got] == [RINGS[0]]


async def test_a_waiting_read_survives_a_killed_and_restarted_server(redis_server, real):
    await real.add(RINGS[0])
    await all_there_is(real)
    with redis_server.client() as client:
        reading = await blocked_read(client, real)
    redis_server.kill()
    with pytest.raises(Unreachable):
        await reading
    redis_server.start()
    assert (await all_there_is(real))[1] == [RINGS[0]]


async def test_entries_trimmed_before_they_were_acknowledged(redis_server, real, caplog):
    await real.add(*RINGS[:3])
    await all_there_is(real)
    with redis_server.client() as client:
        client.xtrim(wire.INBOX, maxlen=1, approximate=False)
        again = RedisStream(redis_server.url)
        assert (await all_there_is(again))[1] == [RINGS[2]]
        assert client.xpending(wire.INBOX, wire.INBOX_GROUP)["pending"] == 1
        await again.close()


@pytest.mark.parametrize("first", ["add", "read"])
@pytest.mark.parametrize(
    "spoil", [["SET", wire.INBOX, "x"], ["XADD", wire.INBOX, f"{2**64 - 1}-{2**64 - 1}", "a", "b"]]
)
async def test_an_inbox_that_can_take_nothing_is_deleted(redis_server, real, caplog, spoil, first):
    """Nothing would ever mend it, and no job would start again."""
    with redis_server.client() as client:
        client.delete(wire.INBOX)
        client.execute_command(*spoil)
    if first == "read":
        await all_there_is(real)
    await real.add(RINGS[0])
    assert (await all_there_is(real))[1][-1] == RINGS[0]
    assert sum("was deleted" in record.message for record in caplog.records) == 1


async def test_a_replica_is_unreachable_for_writes(redis_server, real):
    with redis_server.client() as client:
        client.replicaof("127.0.0.1", "1")
        with pytest.raises(Unreachable) as caught:
            await real.add(wire.WakeUp())
        assert "primary" in caught.value.fix
        client.replicaof("NO", "ONE")
    await real.add(wire.WakeUp())


async def test_a_full_server_is_unreachable(redis_server, real):
    with redis_server.client() as client:
        client.config_set("maxmemory", "1")
        with pytest.raises(Unreachable, match="maxmemory"):
            await real.add(wire.WakeUp())
        client.config_set("maxmemory", "0")
    await real.add(wire.WakeUp())


async def test_a_server_that_loads_is_unreachable(redis_server, real):
    await real.add(*[wire.Spooled("node", seq, "Started", {}) for seq in range(3000)])
    with redis_server.client() as client:
        client.mset({f"key {number}": "" for number in range(3000)})
    redis_server.kill()
    redis_server.spawn("--key-load-delay", "300")  # microseconds for each key
    said = set()
    until = time.monotonic() + 60
    while True:
        try:
            await real.ping()
            break
        except Unreachable as error:
            said.add("loading" if "loading" in error.message else "refused")
        assert time.monotonic() < until
        await asyncio.sleep(0.02)
    assert "loading" in said
    assert len((await all_there_is(real, limit=5000))[1]) == 3000


async def test_a_hung_server_is_unreachable_in_seconds(redis_server, monkeypatch):
    monkeypatch.setattr("gpuq.adapters.redis.link.ANSWER_WITHIN_S", 1.0)
    stream = RedisStream(redis_server.url)
    await stream.ping()
    redis_server.freeze()
    with pytest.raises(Unreachable):
        await stream.ping()
    redis_server.thaw()
    monkeypatch.undo()
    redis_server.wait_answering()
    await stream.ping()
    await stream.close()


async def test_keys_of_another_type_are_replaced(redis_server, real):
    with redis_server.client() as client:
        client.set(wire.INBOX, "a string of another program")
        client.rpush(wire.acknowledged_key("node"), "x")
        client.set(wire.WAITING, "x,5")
    assert await real.read(0.01, 10) == []
    await real.add(wire.WakeUp())
    assert [message for _, message in await real.read(0.01, 10)] == [wire.WakeUp()]
    assert await real.acknowledged("node") is None
    await real.set_acknowledged("node", b"ours")
    assert await real.acknowledged("node") == b"ours"
    assert await real.waiting() == []


@pytest.mark.parametrize("key", [wire.WAITING, wire.VIEW, wire.COMMITTED])
async def test_a_value_of_another_type_counts_as_none_until_it_is_replaced(redis_server, real, key):
    with redis_server.client() as client:
        client.rpush(key, "of another program")
    assert (await real.waiting(), await real.view(), await real.committed()) == ([], None, None)
    await real.set_waiting([1])
    await real.set_view(b"view", 60)
    await real.set_committed(b"mark")
    assert (await real.waiting(), await real.view(), await real.committed()) == ([1], b"view", b"mark")


async def test_many_calls_at_once_share_few_connections(redis_server, real):
    await asyncio.gather(*(real.add(wire.WakeUp()) for _ in range(300)))
    with redis_server.client() as client:
        assert client.xlen(wire.INBOX) == 300
        assert client.info("stats")["total_connections_received"] <= 40
