"""The log of another host is read by signed messages through a real Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from gpuq_workers import serve_requests as server

from gpuq.adapters.job_log import Chunk
from gpuq.adapters.redis import host_logs, link
from gpuq.adapters.redis.host_logs import HostLogs
from gpuq.adapters.redis.host_mail import MainHostMail
from gpuq.adapters.redis.link import async_client
from gpuq.adapters.tasks import end
from gpuq.errors import Unreachable
from gpuq.messages import wire

KEY = "the-key-of-this-test"


@asynccontextmanager
async def serving(url: str, attempts: Path, key: str = KEY) -> AsyncIterator[HostLogs]:
    """The host `node2` with these attempts, and a reader of its logs."""
    client = async_client(url)
    mail = MainHostMail(url, client, "node2", attempts)
    serving = asyncio.create_task(server.serve_requests(mail, "node2", key, attempts))
    reader = HostLogs(url, lambda _: KEY)
    try:
        yield reader
    finally:
        await end([serving])
        await reader.close()
        await client.aclose()


@pytest.fixture
def attempts(tmp_path: Path) -> Path:
    (tmp_path / "7-1").mkdir()
    (tmp_path / "7-1" / "output.log").write_bytes(bytes(range(256)) * 4000)
    return tmp_path


async def test_bytes_of_another_hosts_log(redis_server, attempts, monkeypatch):
    for module in (host_logs, link):  # a hundred requests at once take long on a busy machine
        monkeypatch.setattr(module, "ANSWER_WITHIN_S", 60.0)
    async with serving(redis_server.url, attempts) as reader, asyncio.timeout(60):
        assert await reader.read("node2", 7, 1, 250, 10) == Chunk(
            bytes([250, 251, 252, 253, 254, 255, 0, 1, 2, 3]), 260
        )
        assert await reader.read("node2", 7, 1, -1, 10) == Chunk(b"\xff", 1_024_000)
        assert await reader.read("node2", 8, 1, 0, 10) is None
        found = await reader.read("node2", 7, 1, 0, 10**9)
        assert found is not None
        assert len(found.data) == 256 * 1024, "one answer is bounded"
        many = await asyncio.gather(*(reader.read("node2", 7, 1, offset, 1) for offset in range(100)))
        assert [chunk.data for chunk in many if chunk] == [bytes([offset]) for offset in range(100)]


async def test_a_log_is_read_whatever_stood_where_it_is_asked_for(redis_server, attempts):
    with redis_server.client() as client:
        client.set(wire.log_requests_key("node2"), "of another program")
    async with serving(redis_server.url, attempts) as reader, asyncio.timeout(60):
        assert await reader.read("node2", 7, 1, 250, 3) == Chunk(bytes([250, 251, 252]), 253)


async def test_a_silent_host_is_unreachable_and_meets_no_old_request_later(redis_server, monkeypatch):
    monkeypatch.setattr(host_logs, "ANSWER_WITHIN_S", 1.0)
    reader = HostLogs(redis_server.url, lambda _: KEY)
    with pytest.raises(Unreachable, match="Host node2 does not answer"):
        await reader.read("node2", 7, 1, 0, 10)
    await reader.close()
    with redis_server.client() as client:
        assert 0 < client.ttl(wire.log_requests_key("node2")) <= 10


@pytest.mark.parametrize("key", ["another-key", ""])
async def test_a_request_that_is_not_signed_gets_no_answer(redis_server, attempts, monkeypatch, key, caplog):
    monkeypatch.setattr(host_logs, "ANSWER_WITHIN_S", 1.0)
    async with serving(redis_server.url, attempts, key) as reader:
        with pytest.raises(Unreachable):
            await reader.read("node2", 7, 1, 0, 10)
    assert "not signed" in caplog.text


async def test_a_forged_answer_is_not_given_out(redis_server, monkeypatch):
    """Whoever can write to Redis answers before the host does."""
    monkeypatch.setattr(host_logs, "ANSWER_WITHIN_S", 1.0)
    reader = HostLogs(redis_server.url, lambda _: KEY)
    reading = asyncio.create_task(reader.read("node2", 7, 1, 0, 10))
    with redis_server.client() as client:
        raw = await asyncio.to_thread(client.blpop, [wire.log_requests_key("node2")], 60)
        request = wire.genuine(raw[1], wire.LogRequest, "node2", KEY)
        forged = wire.LogAnswer("node2", request.id, b"forged", 6)
        client.rpush(wire.log_answer_key(request.id), wire.encode(wire.seal(forged, "another-key")))
    with pytest.raises(Unreachable):
        await reading
    await reader.close()


async def test_the_host_answers_again_after_redis_was_away(redis_server, attempts, monkeypatch):
    monkeypatch.setattr(server, "_PAUSE_S", 0.05)
    async with serving(redis_server.url, attempts) as reader, asyncio.timeout(60):
        redis_server.kill()
        with pytest.raises(Unreachable):
            await reader.read("node2", 7, 1, 0, 1)
        redis_server.start()
        while True:
            with suppress(Unreachable):
                assert await reader.read("node2", 7, 1, 0, 1) == Chunk(b"\x00", 1)
                break
