"""Listening: who owns the socket, what happens to a stale one, what a taken port says."""

from __future__ import annotations

import asyncio
import errno
import json
import resource
import socket
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from gpuq.api import connections, server
from gpuq.api.app import make_app
from gpuq.api.context import ApiContext
from gpuq.api.server import address, note, serve
from gpuq.home import write_private
from gpuq.settings import Settings
from tests.api.conftest import TOKEN, started
from tests.api.support import FaultyStore, MemoryStream, describe, submission
from tests.support.patience import Stopwatch, until


@pytest.mark.parametrize(
    ("host", "opened"),
    [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("::1", "[::1]"), ("gpu.lab", "gpu.lab")],
)
def test_the_page_has_an_address_that_can_be_opened_here(host: str, opened: str) -> None:
    assert address(host, 8790) == f"http://{opened}:8790/"


async def test_two_processes_for_one_home(settings: Settings) -> None:
    """The second serves TCP, and takes the socket over when the first ends."""
    home, store = settings.home, FaultyStore()
    async with started(settings, store, MemoryStream()) as first:
        port = json.loads(note(home).read_bytes())["port"]
        other = asyncio.create_task(_second(settings, store))
        await asyncio.sleep(0)
        assert (await first.post("/api/v1/jobs", submission()))[0] == 201
        assert json.loads(note(home).read_bytes())["port"] == port
        while not _second_ports:
            await asyncio.sleep(0.01)
        known = {"Authorization": f"Bearer {TOKEN}"}
        address = f"http://127.0.0.1:{_second_ports[0]}/version"
        async with aiohttp.ClientSession(headers=known) as client, client.get(address) as answer:
            assert answer.status == 200
    async with asyncio.timeout(60):
        while not note(home).exists() or json.loads(note(home).read_bytes())["port"] != _second_ports[0]:
            await asyncio.sleep(0.02)
    connector = aiohttp.UnixConnector(str(home.api_socket))
    async with aiohttp.ClientSession(connector=connector) as client, client.get("http://gpuq/api/v1/jobs/1") as answer:
        assert answer.status == 200
    _stop_second.set()
    await asyncio.wait_for(other, 60)
    assert not home.api_socket.exists()
    assert not note(home).exists()


_second_ports: list[int] = []
_stop_second = asyncio.Event()


async def _second(settings: Settings, store: FaultyStore) -> None:
    import re

    def say(text: str) -> None:
        if found := re.search(r"http://127\.0\.0\.1:(\d+)", text):
            _second_ports.append(int(found[1]))

    app = make_app(ApiContext(settings, store, MemoryStream(), describe, TOKEN))
    await serve(app, settings.home, settings.api, _stop_second, say)


@pytest.mark.parametrize("part", ["committer", "ringer"])
async def test_a_process_without_one_of_its_parts_ends(
    settings: Settings, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails() -> None:
        raise LookupError("a defect")

    context = ApiContext(settings, FaultyStore(), MemoryStream(), describe, TOKEN)
    monkeypatch.setattr(getattr(context, part), "run", fails)
    serving = asyncio.create_task(serve(make_app(context), settings.home, settings.api, context.ending, lambda _: None))
    assert (await asyncio.wait({serving}, timeout=3))[0], "it serves on"
    with pytest.raises(LookupError, match="a defect"):
        await serving
    assert not note(settings.home).exists()


async def test_the_note_and_the_socket_are_gone_after_the_end(settings: Settings) -> None:
    async with started(settings, FaultyStore(), MemoryStream()):
        assert note(settings.home).stat().st_mode & 0o777 == 0o600
    assert not note(settings.home).exists()
    assert not settings.home.api_socket.exists()


async def test_a_full_disk_does_not_end_the_endpoint(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The note of where it listens is written once there is room."""
    monkeypatch.setattr(server, "_WRITE_AGAIN_EVERY_S", 0.01)
    is_full = True

    def write(path: Path, content: bytes, *, durable: bool = True) -> None:
        if is_full:
            raise OSError(errno.ENOSPC, "No space left on device", f"{path}.tmp")
        write_private(path, content, durable=durable)

    monkeypatch.setattr(server, "write_private", write)
    context = ApiContext(settings, FaultyStore(), MemoryStream(), describe, TOKEN)
    said: list[str] = []
    serving = asyncio.create_task(serve(make_app(context), settings.home, settings.api, context.ending, said.append))
    await until(lambda: said or serving.done(), story=lambda: "an endpoint")
    connector = aiohttp.UnixConnector(str(settings.home.api_socket))
    async with aiohttp.ClientSession(connector=connector) as client, client.get("http://gpuq/version") as answer:
        assert (answer.status, note(settings.home).exists()) == (200, False)
    is_full = False
    await until(note(settings.home).exists, story=lambda: "the note")
    context.ending.set()
    await asyncio.wait_for(serving, 60)
    assert not note(settings.home).exists()


async def test_streams_end_when_the_process_does(settings: Settings) -> None:
    async with started(settings, FaultyStore(), MemoryStream()) as endpoint:
        answer = await endpoint.socket.get("/api/v1/events")
        await answer.content.readline()
        ending = Stopwatch()
    assert ending.seconds < 2.5
    answer.close()


async def test_of_connections_without_a_caller_the_oldest_are_closed(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of callers who are known stay, and who comes now is served."""
    monkeypatch.setattr(connections, "MOST_UNKNOWN", 3)
    monkeypatch.setattr(connections, "LOOK_EVERY_S", 0.01)
    async with started(settings, FaultyStore(), MemoryStream()) as endpoint, asyncio.timeout(30):

        async def asked(request: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
            writer.write(request.encode())
            return reader, writer

        head = f"GET /version HTTP/1.1\r\nHost: localhost:{endpoint.port}\r\n"
        reader, writer = await asked(f"{head}Authorization: Bearer {TOKEN}\r\n\r\n")
        assert b" 200 " in await reader.readline()
        silent = [await asked(begun) for begun in ("", "GET /livez HT", "", "", "")]
        for closed, _ in silent[:2]:
            assert await closed.read() == b""
        assert (await endpoint.tcp.get("/livez")).status == 200
        writer.write(f"{head}Authorization: Bearer {TOKEN}\r\n\r\n".encode())
        assert b" 200 " in (await reader.readuntil(b"HTTP/1.1 200 "))
        for _, one in (*silent, (reader, writer)):
            one.close()


async def test_one_caller_cannot_have_all_connections(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a number its own oldest ones are closed, and no other's."""
    monkeypatch.setattr(connections, "MOST_OF_CALLER", 3)
    monkeypatch.setattr(connections, "LOOK_EVERY_S", 0.01)
    async with started(settings, FaultyStore(), MemoryStream()) as endpoint, asyncio.timeout(30):
        other = await asyncio.open_connection("127.0.0.1", endpoint.port)
        mine = [await asyncio.open_unix_connection(str(settings.home.api_socket)) for _ in range(5)]
        for reader, writer in mine:
            writer.write(b"GET /version HTTP/1.1\r\nHost: gpuq\r\n\r\n")
            assert b" 200 " in await reader.readline()
        for reader, _ in mine[:2]:
            assert (await reader.read()).endswith(b"}"), "the rest of the answer, and then the end"
        for reader, writer in mine[2:]:
            writer.write(b"GET /version HTTP/1.1\r\nHost: gpuq\r\n\r\n")
            await reader.readuntil(b"HTTP/1.1 200 ")
        other[1].write(f"GET /livez HTTP/1.1\r\nHost: localhost:{endpoint.port}\r\n\r\n".encode())
        assert b" 200 " in await other[0].readline()
        for _, one in (*mine, other):
            one.close()


def test_the_endpoints_have_as_many_descriptors_as_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = (1024, 524_288)

    def set_limits(_: int, wanted: tuple[int, int]) -> None:
        nonlocal limits
        limits = wanted

    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", set_limits)
    for before, after in (
        ((1024, 524_288), 65_536),
        ((1024, 4096), 4096),
        ((100_000, 524_288), 100_000),
        ((1024, -1), 65_536),
    ):
        limits = before
        connections.allow_descriptors()
        assert limits == (after, before[1])


async def test_systemd_is_notified(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "60000")
        async with started(settings, FaultyStore(), MemoryStream()), asyncio.timeout(60):
            loop = asyncio.get_running_loop()
            reply = [await loop.sock_recv(manager, 100) for _ in range(4)]
    assert reply[0] == b"READY=1\n"
    assert reply[1:] == [b"WATCHDOG=1\n"] * 3


async def test_another_port_may_be_asked_for(settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with started(
        replace(settings, api=replace(settings.api, port=port)), FaultyStore(), MemoryStream()
    ) as endpoint:
        assert endpoint.port == port
