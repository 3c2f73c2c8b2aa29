"""Live servers for a measurement: a whole gpuq in a home of its own, and a bare RQ on the same Redis build beside it.

Both end with the block that started them and leave nothing running: `gpuq up --stop-jobs` ends its jobs too.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from redis import Redis
from rq import Queue
from rq.serializers import JSONSerializer

from gpuq.adapters.redis.server import prepare, wait_ready
from gpuq.home import Home

T = TypeVar("T")
ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent


class Gpuq:
    """`with Gpuq(devices_cpu_count=2) as gpuq:` a real `gpuq up` with these settings."""

    def __init__(self, **settings: object) -> None:
        self.home = Home(Path(tempfile.mkdtemp(prefix="gq-")))
        clean = {name: value for name, value in os.environ.items() if not name.startswith("GPUQ_")}
        asked = {f"GPUQ_{name}".upper(): str(value) for name, value in settings.items()}
        self.env = {**clean, "GPUQ_HOME": str(self.home.root), "GPUQ_DEVICES_BACKEND": "cpu", **asked}

    def __enter__(self) -> Gpuq:
        self._log = (self.home.root / "up.log").open("ab")
        argv = [sys.executable, "-m", "gpuq.programs.up", "--port", "0", "--stop-jobs"]
        self._process = subprocess.Popen(
            argv, cwd=ROOT, env=self.env, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log
        )
        try:
            wait_for(self.home.api_socket.exists, 60)
            self._connection = UnixConnection(self.home.api_socket)
            wait_for(lambda: self.get("/api/v1/gpus"), 60)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(60)
        finally:
            self._log.close()
            shutil.rmtree(self.home.root, ignore_errors=True)

    def get(self, path: str) -> Any:
        """The JSON at `path`."""
        return self._call("GET", path, None)

    def submit(self, *jobs: dict[str, Any]) -> list[int]:
        """The ids of these jobs; each has at least a `command`."""
        bodies = [{"cwd": str(self.home.root), "env": {"PATH": os.environ["PATH"]}, **job} for job in jobs]
        if len(bodies) == 1:
            return [self._call("POST", "/api/v1/jobs", bodies[0])["id"]]
        return list(self._call("POST", "/api/v1/jobs", bodies)["ids"])

    def cancel(self, job: int) -> None:
        """End it."""
        self._call("POST", f"/api/v1/jobs/{job}/cancel", {})

    def state(self, job: int) -> str:
        """The job's state, Slurm's word."""
        return str(self.get(f"/api/v1/jobs/{job}")["state"])

    def pid(self, module: str) -> int:
        """The process that `gpuq up` started as `python -m MODULE`."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        for child in map(int, children):
            if module in Path(f"/proc/{child}/cmdline").read_text().split("\0"):
                return child
        raise LookupError(module)

    def _call(self, method: str, path: str, body: object) -> Any:
        headers = {"Content-Type": "application/json"}
        self._connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = self._connection.getresponse()
        raw = answer.read()
        if answer.status >= 400:
            raise RuntimeError(f"{method} {path}: {answer.status} {raw[:500]!r}")
        return json.loads(raw)


class BareRq:
    """RQ as it comes: its own Redis server (gpuq's build and configuration), JSON serializer, one forking worker."""

    def __init__(self, *, worker: bool) -> None:
        self.home = Home(Path(tempfile.mkdtemp(prefix="rq-")))
        self.home.create()
        self.url = f"unix://{self.home.redis_socket}"
        self._wants_worker = worker
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> BareRq:
        self._start(list(prepare(self.home).argv), "redis.log")
        try:
            asyncio.run(wait_ready(self.url, 20))
            self.queue = Queue("bench", connection=Redis.from_url(self.url), serializer=JSONSerializer)
            if self._wants_worker:
                self._start([str(BIN / "rq"), "worker", "-q", "--url", self.url, "-S", "json", "bench"], "worker.log")
                wait_for(lambda: self.queue.connection.scard("rq:workers"), 60)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            process.terminate()
            process.wait(30)
        shutil.rmtree(self.home.root, ignore_errors=True)

    def _start(self, argv: list[str], log: str) -> None:
        with (self.home.logs / log).open("ab") as output:
            self._processes.append(
                subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
            )


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket, kept open between calls."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=60)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket's path."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def wait_for(look: Callable[[], T], within_s: float, every_s: float = 0.005) -> T:
    """What `look` gives once it gives something. Raises TimeoutError."""
    deadline = time.monotonic() + within_s
    while not (found := look()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"nothing came of {look} within {within_s:g} s")
        time.sleep(every_s)
    return found
