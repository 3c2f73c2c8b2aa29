"""A real HTTP server on a Unix socket with canned answers, and the `gpuq` command as a process of its own."""

from __future__ import annotations

import json
import os
import socketserver
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from gpuq import __version__
from tests.support import forked


@dataclass
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass
class Reply:
    """A canned answer. `raw` is sent instead of JSON; `cut` closes the connection without an answer."""

    body: Any = None
    status: int = 200
    raw: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    cut_after: bytes | None = None


Answer = Reply | Callable[[Request], Reply]


class FakeApi:
    """Answers by (method, path); remembers what was asked. A list of answers is used up one by one, the last one stays."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.requests: list[Request] = []
        self.answers: dict[tuple[str, str], list[Answer]] = {}

    def on(self, method: str, path: str, *answers: Any) -> None:
        self.answers[method, path] = [a if isinstance(a, Reply) or callable(a) else Reply(a) for a in answers]

    def answer(self, request: Request) -> Reply:
        waiting = self.answers.get((request.method, request.path))
        if not waiting and request.path == "/api/v1/arrays":
            return Reply({"arrays": []})  # a single id might be an array's
        if not waiting and request.path == "/version":
            return Reply({"version": __version__, "api": "v1"})  # asked for after a refusal
        self.requests.append(request)
        if not waiting:
            return problem(404, 3, f"Nothing is served at {request.path}.", "See the list.")
        answer = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        return answer if isinstance(answer, Reply) else answer(request)

    def asked(self, method: str, path: str) -> list[Request]:
        return [r for r in self.requests if (r.method, r.path) == (method, path)]


def problem(status: int, exit_code: int, detail: str, hint: str) -> Reply:
    body = {"type": "urn:x", "title": "x", "status": status, "detail": detail, "hint": hint, "exit_code": exit_code}
    return Reply(body, status)


@dataclass
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Command:
    """Runs `gpuq` as a user would, in a process of its own: forked, or started where the start matters."""

    program = forked.PROGRAM

    def __init__(self, home: Path, cwd: Path) -> None:
        self.cwd = cwd
        self._started: list[subprocess.Popen[bytes]] = []
        self.env = {
            "GPUQ_HOME": str(home),
            "HOME": str(cwd),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "TZ": "UTC",
        }

    def __call__(self, *words: str | bytes, stdin: str | None = None, cwd: Path | None = None, **env: str) -> Done:
        where, environ = cwd or self.cwd, {**self.env, **env}
        if any(name.startswith("PYTHON") for name in env):  # only the start of an interpreter reads those
            assert stdin is None
            process = self.start(*words, cwd=where, env=environ)
            out, errors = process.communicate(timeout=60)
            code = process.returncode
        else:
            given = None if stdin is None else stdin.encode("utf-8", "surrogateescape")
            done = forked.gpuq(*words, stdin=given, cwd=where, env=environ, timeout_s=60)
            code, out, errors = done.returncode, done.stdout, done.stderr
        err = errors.decode()
        assert "Traceback" not in err
        return Done(code, out.decode(errors="surrogateescape"), err)

    def start(self, *words: str | bytes, **options: Any) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        defaults = {"stdin": subprocess.DEVNULL, "stdout": pipe, "stderr": pipe, "cwd": self.cwd, "env": self.env}
        process = subprocess.Popen([self.program, *words], **{**defaults, **options})
        self._started.append(process)
        return process

    def end(self) -> None:
        """End what a failed test has left running: its warnings would fail another test."""
        for process in self._started:
            process.kill()
            process.wait()
            for stream in filter(None, (process.stdout, process.stderr)):
                stream.close()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    (home / "run").mkdir(parents=True, mode=0o700)
    return home


@pytest.fixture
def gpuq(home: Path, tmp_path: Path) -> Iterator[Command]:
    work = tmp_path / "work"
    work.mkdir()
    command = Command(home, work)
    yield command
    command.end()


@pytest.fixture
def api(home: Path) -> Iterator[FakeApi]:
    fake = FakeApi(home)
    with serve(fake, home / "run" / "api.sock"):
        yield fake


class serve:  # noqa: N801  a context manager that reads as a verb
    """The fake on a Unix socket, until the block ends."""

    def __init__(self, fake: FakeApi, path: Path) -> None:
        self._path = path
        self._server = _Server(str(path), _handler(fake))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._path.unlink(missing_ok=True)


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 64


def _handler(fake: FakeApi) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            split = urlsplit(self.path)
            raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            is_json = self.headers.get("Content-Type") != "application/octet-stream"
            body = (json.loads(raw) if is_json else raw) if raw else None
            query = dict(parse_qsl(split.query))
            self.send(fake.answer(Request(self.command, split.path, query, dict(self.headers), body)))

        do_POST = do_GET  # noqa: N815  the name http.server looks for

        def send(self, reply: Reply) -> None:
            if reply.cut:
                self.close_connection = True
                return
            raw = reply.raw if reply.raw is not None else json.dumps(reply.body).encode()
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if reply.cut_after is not None:
                self.send_header("Content-Length", str(len(reply.cut_after) + 1))
                self.end_headers()
                self.wfile.write(reply.cut_after)
                self.close_connection = True
                return
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def address_string(self) -> str:
            return "unix"

        def log_message(self, *_: object) -> None:
            pass

    return Handler
