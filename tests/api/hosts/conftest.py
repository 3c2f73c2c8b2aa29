"""A main host for the tests of its listener: the real application over real TLS and a real Redis, with a record in memory."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import ssl
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from msgspec.structs import replace

from gpuq.adapters.certificates import Authority, new_request
from gpuq.adapters.main_host import PREFIX
from gpuq.adapters.redis import host_mail
from gpuq.adapters.redis.link import async_client
from gpuq.adapters.redis.stream import RedisStream
from gpuq.api.hosts import joining
from gpuq.api.hosts.calls import HostContext
from gpuq.api.hosts.listener import CONTEXT, make_app, run_blocking, runner_of, tls_context
from gpuq.api.hosts.tls_site import TlsSite
from gpuq.home import Home
from tests.support.memory_store import MemoryStore
from tests.support.redis import ThrowawayRedis, redis_server

__all__ = ["redis_server"]


class Main:
    """A listener, and calls to it as one host or another. `at` is its address."""

    def __init__(self, app: web.Application, store: MemoryStore, home: Home, at: str) -> None:
        self.app, self.store, self.home, self.at = app, store, home, at
        self.context = app[CONTEXT]
        self.authority = self.context.authority

    def certificate(self, host: str, authority: Authority | None = None) -> str:
        """A new key and certificate of a host, which the record does not have."""
        key, request = new_request(host)
        return key + (authority or self.authority).issue(host, request).pem

    def joined(self, host: str) -> str:
        """The key and certificate of a host that has joined."""
        invitation, secret = joining.invite(self.store, host, time.time())
        key, request = new_request(host)
        row = joining.invited(self.store, host, secret, time.time())
        assert row == invitation
        return key + joining.join(self.store, self.authority, row, request).pem

    def tls(self, pem: str | None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority.file))
        if pem is not None:
            with tempfile.NamedTemporaryFile("w") as file:
                file.write(pem)
                file.flush()
                context.load_cert_chain(file.name)
        return context

    def ask(self, method: str, path: str, body: Any, pem: str | None, headers: dict[str, str]) -> tuple[int, Any]:
        """(status, JSON); status 0 where TLS refuses."""
        connection = http.client.HTTPSConnection(self.at, timeout=60, context=self.tls(pem))
        try:
            connection.request(method, path, json.dumps(body), headers)
            answer = connection.getresponse()
            raw = answer.read()
        except (OSError, http.client.HTTPException):
            return 0, None
        finally:
            connection.close()
        return answer.status, json.loads(raw) if "json" in answer.headers["Content-Type"] else raw

    async def call(self, path: str, body: Any = None, pem: str | None = None) -> tuple[int, Any]:
        return await asyncio.to_thread(self.ask, "POST", PREFIX + path, body, pem, {})

    async def invited(
        self, method: str, path: str, host: str, secret: str, body: Any = None, **query: str
    ) -> tuple[int, Any]:
        from urllib.parse import urlencode

        address = f"{path}?{urlencode({'host': host, **query}, errors='surrogatepass')}"
        return await asyncio.to_thread(self.ask, method, address, body, None, {"Authorization": f"Bearer {secret}"})

    def forget(self, host: str) -> None:
        assert self.store.replace_joined_host(self.store.joined_host(host), None)

    def rotate(self, host: str) -> None:
        row = self.store.joined_host(host)
        assert row is not None
        assert self.store.replace_joined_host(row, replace(row, renew=True))


@pytest.fixture
async def main(tmp_path: Path, redis_server: ThrowawayRedis, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Main]:
    monkeypatch.setattr(host_mail, "WAIT_S", 0.02)
    home = Home(tmp_path / "main")
    home.create()
    store, url = MemoryStore(), redis_server.url
    stream, client = RedisStream(url), async_client(url)
    context = HostContext(store, stream, client, url, Authority(home.tls, time.time), run_blocking)
    app = make_app(context, home, ("127.0.0.1:1",), "submitter")
    runner = runner_of(app)
    await runner.setup()
    listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
    port = listening.getsockname()[1]
    await TlsSite(runner, listening, tls_context(context.authority, ("127.0.0.1:1",))).start()
    yield Main(app, store, home, f"127.0.0.1:{port}")
    await runner.cleanup()
    await client.aclose()
    await stream.close()
