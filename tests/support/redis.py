"""A throw-away real Redis server for tests, configured as by `gpuq up`; it can be killed, paused and restarted."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from gpuq.adapters.redis.link import blocking_client
from gpuq.adapters.redis.server import end_stale, prepare
from gpuq.adapters.supervise import _die_with_parent
from gpuq.home import Home


class ThrowawayRedis:
    """One server in a home of its own. The home's path is short, as sockets need it, unlike pytest's `tmp_path`."""

    def __init__(self) -> None:
        self.home = Home(Path(tempfile.mkdtemp(prefix="gpuq-")))
        self.home.create()
        self.url = f"unix://{self.home.redis_socket}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *options: str) -> ThrowawayRedis:
        """Start it and wait until it answers; `options` as on the command line, like `--maxmemory 1mb`."""
        self.spawn(*options)
        self.wait_answering()
        return self

    def spawn(self, *options: str) -> None:
        """Start it, and do not wait."""
        spec = prepare(self.home)
        with spec.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*spec.argv, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_die_with_parent,  # noqa: PLW1509  # a killed test run must leave no server
            )

    def wait_answering(self, within_s: float = 60.0) -> None:
        until = time.monotonic() + within_s
        with self.client() as client:
            while True:
                try:
                    client.ping()
                    return
                except redis.RedisError:
                    assert time.monotonic() < until, (self.home.logs / "redis.log").read_text()
                    time.sleep(0.01)

    def client(self) -> redis.Redis:
        return blocking_client(self.url)

    def stop(self) -> None:
        """End it as `gpuq up` does."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: what was written to the append-only file stays."""
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def remove(self) -> None:
        if self.process is not None:
            self.kill()
        end_stale(self.home)
        shutil.rmtree(self.home.root)

    def _end(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait(60)
        self.process = None


@pytest.fixture
def redis_server() -> Iterator[ThrowawayRedis]:
    """A running server, new for each test (it starts in some 15 ms)."""
    server = ThrowawayRedis()
    try:
        yield server.start()
    finally:
        server.remove()
