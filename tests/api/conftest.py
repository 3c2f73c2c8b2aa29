"""An endpoint on a Unix socket and on TCP, over a record and a stream in memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gpuq.api.app import make_app
from gpuq.api.context import CONTEXT, ApiContext, Models
from gpuq.api.server import note, serve
from gpuq.home import Home
from gpuq.settings import Settings, load
from tests.api.support import FaultyStore, MemoryStream, SmallModels, afternoon, describe

TOKEN = "a-token-of-the-test-that-is-secret"


@dataclass
class Endpoint:
    """A running endpoint, and two ways to talk to it."""

    store: FaultyStore
    stream: MemoryStream
    settings: Settings
    context: ApiContext
    socket: aiohttp.ClientSession
    tcp: aiohttp.ClientSession
    port: int

    async def get(self, path: str, **options: Any) -> tuple[int, Any]:
        async with self.socket.get(path, **options) as answer:
            return answer.status, await answer.json(content_type=None)

    async def post(self, path: str, body: Any = None, **options: Any) -> tuple[int, Any]:
        async with self.socket.post(path, json=body, **options) as answer:
            return answer.status, await answer.json(content_type=None)

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    found = load({"GPUQ_HOME": str(tmp_path / "h")})
    found.home.create()
    return replace(found, api=replace(found.api, port=0))


@pytest.fixture
async def endpoint(settings: Settings) -> AsyncIterator[Endpoint]:
    async with started(settings, FaultyStore(), MemoryStream(), SmallModels()) as running:
        yield running


@pytest.fixture
def busy(endpoint: Endpoint) -> Endpoint:
    """It shows an afternoon on which jobs run, wait and have ended."""
    afternoon(endpoint.store, endpoint.stream)
    return endpoint


@asynccontextmanager
async def started(
    settings: Settings,
    store: FaultyStore,
    stream: MemoryStream,
    models: Models | None = None,
    clock: Callable[[], float] = time.time,
) -> AsyncIterator[Endpoint]:
    """Serve until the block ends."""
    app = make_app(ApiContext(settings, store, stream, describe, TOKEN, models, clock=clock))
    stop = asyncio.Event()
    serving = asyncio.create_task(serve(app, settings.home, settings.api, stop, lambda _: None))
    port = await _port_of(settings.home, serving)
    connector = aiohttp.UnixConnector(str(settings.home.api_socket))
    async with (
        aiohttp.ClientSession("http://gpuq", connector=connector) as over_socket,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as over_tcp,
    ):
        yield Endpoint(store, stream, settings, app[CONTEXT], over_socket, over_tcp, port)
    stop.set()
    await asyncio.wait_for(serving, 60)


async def _port_of(home: Home, serving: asyncio.Task[None]) -> int:
    import msgspec

    async with asyncio.timeout(60):
        while not note(home).exists():
            if serving.done():
                serving.result()
            await asyncio.sleep(0.005)
    return int(msgspec.json.decode(note(home).read_bytes())["port"])
