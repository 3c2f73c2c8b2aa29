"""Long-lived child processes: started, restarted with a growing pause when they crash, stopped in order.

Used by `gpuq up` for the services and by the worker service for its RQ worker. Jobs are never children of this: each is a child
of its shim.
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
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from gpuq.adapters.process import Identity, identify, is_alive, send_signal
from gpuq.adapters.tasks import wait_for_event
from gpuq.home import write_private
from gpuq.logs import last_words, shorten

# From <linux/prctl.h>; Python's os module does not offer it.
_PR_SET_PDEATHSIG = 1
_LOOK_AT_LEFT_EVERY_S, _KILLED_WITHIN_S = 0.02, 5.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _HEALTHY_AFTER_S = 0.1, 5.0, 10.0
_LOOK_AT_LOG_EVERY_S = 10.0
_CRASHES_KEPT = 20
EXIT_NOT_STARTED = 126
"""The `code` of a child that could not be started, as in a shell."""


@dataclass(frozen=True)
class ChildSpec:
    """One child: a short name, its argument list, variables added to our environment, the log for its output.

    `status` is a JSON file that says, while the child is supervised, which process it is and when it crashed. `inherits` are
    descriptors of ours that the child gets under the same numbers.
    """

    name: str
    argv: Sequence[str]
    log: Path
    env: Mapping[str, str] | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    stop_within_s: float = 8.0
    status: Path | None = None
    inherits: Sequence[int] = ()


@dataclass(frozen=True)
class Crash:
    """An unrequested end. `how` is "exit code 2" or "SIGKILL"; `said` and `fix` come from the end of its log.

    `in_a_row` counts crashes since the child last ran for ten seconds.
    """

    name: str
    code: int
    how: str
    in_a_row: int
    said: str
    fix: str | None
    log: str

    def __str__(self) -> str:
        """A sentence for the log. Without `in_a_row`, because the log counts equal lines."""
        return f"{self.name} ended ({self.how}) and is started again. The end of {self.log}: {self.said}"


def python_module(module: str, *arguments: str) -> list[str]:
    """The argument list that runs one of our modules with this interpreter. `-P`: the current folder is not imported from."""
    return [sys.executable, "-P", "-m", module, *arguments]


async def supervise(spec: ChildSpec, stop: asyncio.Event, crashed: Callable[[Crash], None] = lambda _: None) -> None:
    """Keep one child running until `stop` is set, then end it: its stop signal first, SIGKILL after `stop_within_s`.

    Shortens its log every ten seconds. Calls `crashed` for each unrequested end. Where a supervisor before this one was killed
    and left its child, that is ended first; so there must be one supervisor at a time.
    """
    await _end_left(spec)
    crashes: deque[float] = deque(maxlen=_CRASHES_KEPT)
    crash: Crash | None = None
    in_a_row, pause = 0, _FIRST_PAUSE_S
    while not stop.is_set():
        started = time.monotonic()
        log_began = spec.log.stat().st_size if spec.log.exists() else 0
        try:
            child = await start(spec)
        except OSError as error:  # no more processes are allowed, no memory, a full disk: it may pass
            code, how, said, fix = EXIT_NOT_STARTED, "it could not be started", str(error), _fix_of(spec)
        else:
            _write_status(spec, time.time(), crashes, crash, identify(child.pid))
            await _ended_or_stopped(child, stop, spec.log)
            if stop.is_set():
                await end(child, spec)
                break
            assert child.returncode is not None
            code, how = child.returncode, _how(child.returncode)
            said, fix = last_words(spec.log, log_began)
        in_a_row = 1 if time.monotonic() - started > _HEALTHY_AFTER_S else in_a_row + 1
        crash = Crash(spec.name, code, how, in_a_row, said, fix, str(spec.log))
        crashes.append(time.time())
        _write_status(spec, None, crashes, crash)
        crashed(crash)
        # A single crash restarts almost at once; one that repeats must not use a core for restarting.
        pause = _FIRST_PAUSE_S if in_a_row == 1 else min(2 * pause, _LONGEST_PAUSE_S)
        await wait_for_event(stop, pause)
    if spec.status is not None:
        spec.status.unlink(missing_ok=True)


async def _end_left(spec: ChildSpec) -> None:
    """End the child of a supervisor that was killed. It had SIGTERM from the kernel, but may have been stopped, or hang; and it
    holds the locks that the next one needs."""
    left = None
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # there is no file, or none with a child
        left = Identity(*json.loads(spec.status.read_bytes())["child"]) if spec.status is not None else None
    if left is None or not is_alive(left):
        return
    for number, within_s in ((spec.stop_signal, spec.stop_within_s), (signal.SIGKILL, _KILLED_WITHIN_S)):
        send_signal(left, number)
        send_signal(left, signal.SIGCONT)
        until = time.monotonic() + within_s
        while is_alive(left) and time.monotonic() < until:
            await asyncio.sleep(_LOOK_AT_LEFT_EVERY_S)


def _fix_of(spec: ChildSpec) -> str | None:
    if Path(spec.argv[0]).is_absolute() and not os.path.lexists(spec.argv[0]):
        return "The environment that it runs from is gone. Install gpuq there again; or `gpuq down`, then `gpuq up` from another."
    return None


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
    except ValueError:  # a real-time signal has no name
        return f"exit code {code}"


def _write_status(
    spec: ChildSpec,
    started_at: float | None,
    crashes: Iterable[float],
    last: Crash | None,
    child: Identity | None = None,
) -> None:
    """Write the child's status file for `gpuq doctor`. A full disk must not stop the supervision: write errors are ignored."""
    if spec.status is None:
        return
    body = {
        "name": spec.name,
        "supervisor": os.getpid(),
        "child": child,
        "started_at": started_at,
        "crashes": list(crashes),
        "last_crash": last and asdict(last),
    }
    with contextlib.suppress(OSError):
        write_private(spec.status, json.dumps(body).encode(), durable=False)


async def start(spec: ChildSpec) -> asyncio.subprocess.Process:
    """Start the child in a session of its own; the kernel sends it SIGTERM if this process dies."""
    spec.log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = os.open(spec.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        return await asyncio.create_subprocess_exec(
            *spec.argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **(spec.env or {})},
            pass_fds=spec.inherits,
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )
    finally:
        os.close(log)


async def end(child: asyncio.subprocess.Process, spec: ChildSpec) -> None:
    """Send the stop signal, and SIGKILL after `stop_within_s`; returns once the child has ended."""
    if child.returncode is not None:
        return
    child.send_signal(signal.SIGCONT)  # one that was stopped takes the other signal only once it goes on
    child.send_signal(spec.stop_signal)
    try:
        await asyncio.wait_for(child.wait(), spec.stop_within_s)
    except TimeoutError:
        child.kill()
        await child.wait()


_libc = ctypes.CDLL(None, use_errno=True)


def _die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
