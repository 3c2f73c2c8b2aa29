"""Our own long-lived children: started, restarted with a growing pause when they fall over, stopped in order.

Arrives: a list of commands. Leaves: nothing until `stop` is set; then every child is gone. Used by `gpuq up` and by the
worker service. Training processes are never children of this: they hang on their shim.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _HEALTHY_AFTER_S = 0.1, 5.0, 10.0


@dataclass(frozen=True)
class ChildSpec:
    """One child: a short name, its argument list, what it adds to our environment, where its output goes."""

    name: str
    argv: Sequence[str]
    log: Path
    env: Mapping[str, str] | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    stop_within_s: float = 8.0


def python_module(module: str, *arguments: str) -> list[str]:
    """The argument list that runs one of our modules with this interpreter; `-P` keeps the current folder out of it."""
    return [sys.executable, "-P", "-m", module, *arguments]


async def supervise(spec: ChildSpec, stop: asyncio.Event, say: Callable[[str], None] = lambda _: None) -> None:
    """Keep one child alive until `stop` is set, then end it: its stop signal first, SIGKILL when that takes too long."""
    pause = _FIRST_PAUSE_S
    loop = asyncio.get_running_loop()
    while not stop.is_set():
        started = loop.time()
        child = await start(spec)
        ended = asyncio.ensure_future(child.wait())
        stopping = asyncio.ensure_future(stop.wait())
        await asyncio.wait({ended, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if stop.is_set():
            await end(child, spec)
            await ended
            return
        pause = _FIRST_PAUSE_S if loop.time() - started > _HEALTHY_AFTER_S else min(pause * 2, _LONGEST_PAUSE_S)
        say(
            f"{spec.name} ended with {child.returncode}; starting it again in {pause:.1f} s, its output is in {spec.log}"
        )
        await _sleep_unless(stop, pause)


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
