"""Our own long-lived children: started, restarted with a growing pause when they fall over, stopped in order.

Arrives: a list of commands. Leaves: nothing until `stop` is set; then every child is gone. Used by `gpuq up` and by the
worker service. Training processes are never children of this: they hang on their shim.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from gpuq.home import write_private
from gpuq.logs import last_words, shorten

_PR_SET_PDEATHSIG = 1
_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _HEALTHY_AFTER_S = 0.1, 5.0, 10.0
_LOOK_AT_LOG_EVERY_S = 10.0
_CRASHES_KEPT = 20


@dataclass(frozen=True)
class ChildSpec:
    """One child: a short name, its argument list, what it adds to our environment, where its output goes.

    `status` is a file that holds, while the child is supervised, whether it runs and when it crashed.
    """

    name: str
    argv: Sequence[str]
    log: Path
    env: Mapping[str, str] | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    stop_within_s: float = 8.0
    status: Path | None = None


@dataclass(frozen=True)
class Crash:
    """An end that was not asked for. `how` is as in "exit code 2" or "SIGKILL", `said` and `fix` are its last words.

    `in_a_row` counts such ends since the child last lived for ten seconds.
    """

    name: str
    code: int
    how: str
    in_a_row: int
    said: str
    fix: str | None
    log: str

    def __str__(self) -> str:
        """Without `in_a_row`: a log counts the same line, and writes it once a minute."""
        return f"{self.name} ended ({self.how}) and is started again. The end of {self.log}: {self.said}"


def python_module(module: str, *arguments: str) -> list[str]:
    """The argument list that runs one of our modules with this interpreter; `-P` keeps the current folder out of it."""
    return [sys.executable, "-P", "-m", module, *arguments]


async def supervise(spec: ChildSpec, stop: asyncio.Event, crashed: Callable[[Crash], None] = lambda _: None) -> None:
    """Keep one child alive until `stop` is set, then end it: its stop signal first, SIGKILL when that takes too long.

    Its log is kept small. Each end that was not asked for is handed to `crashed`.
    """
    status = _Status(spec)
    in_a_row = 0
    while not stop.is_set():
        started = time.monotonic()
        log_began = spec.log.stat().st_size if spec.log.exists() else 0
        child = await start(spec)
        status.started()
        await _ended_or_stopped(child, stop, spec.log)
        if stop.is_set():
            await end(child, spec)
            break
        in_a_row = 1 if time.monotonic() - started > _HEALTHY_AFTER_S else in_a_row + 1
        assert child.returncode is not None
        said, fix = last_words(spec.log, log_began)
        crash = Crash(spec.name, child.returncode, _how(child.returncode), in_a_row, said, fix, str(spec.log))
        status.crashed(crash)
        crashed(crash)
        await _sleep_unless(stop, min(_FIRST_PAUSE_S * 2 ** (in_a_row - 1), _LONGEST_PAUSE_S))
    status.close()


async def _ended_or_stopped(child: asyncio.subprocess.Process, stop: asyncio.Event, log: Path) -> None:
    ended, stopping = asyncio.ensure_future(child.wait()), asyncio.ensure_future(stop.wait())
    try:
        while not (ended.done() or stopping.done()):
            await asyncio.wait({ended, stopping}, timeout=_LOOK_AT_LOG_EVERY_S, return_when=asyncio.FIRST_COMPLETED)
            shorten(log)
    finally:
        ended.cancel()
        stopping.cancel()


def _how(code: int) -> str:
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"exit code {code}"


class _Status:
    """The child's file for `gpuq doctor`: JSON. A disk that is full must not keep the child from being supervised."""

    def __init__(self, spec: ChildSpec) -> None:
        self._spec = spec
        self._crashes: list[float] = []
        self._last: Crash | None = None

    def started(self) -> None:
        self._write(started_at=time.time())

    def crashed(self, crash: Crash) -> None:
        self._crashes = [*self._crashes, time.time()][-_CRASHES_KEPT:]
        self._last = crash
        self._write(started_at=None)

    def close(self) -> None:
        if self._spec.status is not None:
            self._spec.status.unlink(missing_ok=True)

    def _write(self, started_at: float | None) -> None:
        if self._spec.status is None:
            return
        body = {
            "name": self._spec.name,
            "supervisor": os.getpid(),
            "started_at": started_at,
            "crashes": self._crashes,
            "last_crash": self._last and asdict(self._last),
        }
        with contextlib.suppress(OSError):
            write_private(self._spec.status, json.dumps(body).encode(), durable=False)


async def start(spec: ChildSpec) -> asyncio.subprocess.Process:
    """Start the child in a session of its own; the kernel ends it should we be killed."""
    spec.log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with spec.log.open("ab") as log:
        return await asyncio.create_subprocess_exec(
            *spec.argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **(spec.env or {})},
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )


async def end(child: asyncio.subprocess.Process, spec: ChildSpec) -> None:
    """Ask the child to stop, insist after `stop_within_s`."""
    if child.returncode is not None:
        return
    child.send_signal(spec.stop_signal)
    try:
        await asyncio.wait_for(child.wait(), spec.stop_within_s)
    except TimeoutError:
        child.kill()
        await child.wait()


_libc = ctypes.CDLL(None, use_errno=True)


def _die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


async def _sleep_unless(stop: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return
