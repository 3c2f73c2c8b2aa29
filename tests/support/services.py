"""`gpuq up` as a fork of a helper that has the modules of all services imported; the services are forks of it in turn.

So a gpuq starts for an eighth of the processor time that it takes with its interpreters and their imports, and a killed service
is back at once. All else is as for a user: each service is a process of its own, supervised by the code of `gpuq up`. Starts with
interpreters are in tests/programs/test_up.py, tests/end_to_end/test_gpus.py and the soak test.

What else this machine does counts for nothing: other programs' memory and load would delay the starts of jobs and spoil what is
measured of them. It counts in tests/adapters/cpu, and where services are started with interpreters.

A service that is killed again within ten seconds is started again after a pause that grows up to five seconds, here to 0.2 s:
tests that kill services on purpose would spend most of their time in these pauses.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import os
import runpy
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gpuq.adapters import supervise
from tests.support.forked import Fork, Forks, show_as

WINDOW = "TESTED_WINDOW_S"
"""The variable with the seconds of a measured window, without it the usual five: tests that measure would wait most for them."""

# `main` of each service, and what they import only when they run.
_MODULES = (
    "gpuq.programs.up",
    "gpuq.daemon.main",
    "gpuq.api.__main__",
    "gpuq.learn.serving.record",
    "gpuq_workers.serve",
    "gpuq_workers.serve_orders",
    "gpuq_workers.backend",
    "gpuq_workers.mps",
    "gpuq_workers.trees",
    "gpuq.adapters.cpu.backend",
    "gpuq.adapters.store.sql",
    "gpuq.policies.lists.packed",
    "sqlalchemy.dialects.sqlite",
)

# The worker service of a joined host has threads that use TLS when it starts this one. A fork would wait for ever for a lock of
# OpenSSL that one of them held.
_OF_JOINED_HOSTS = "gpuq_workers.poll_orders"

_start = supervise.start
_die_with_parent = supervise._die_with_parent


@cache
def forks() -> Forks:
    """The helper, one for all tests of this process."""
    # aiohttp reads all the system's certificates at its import, 0.08 s; no test of a Site uses TLS.
    return Forks(__name__, *_MODULES, env={"SSL_CERT_FILE": os.devnull})


def started(module: str, output: Path, *arguments: str, env: Mapping[str, str]) -> Fork:
    """One of our programs as `python -P -m` starts it; what it says is appended to `output`."""
    with output.open("ab") as file:
        words = ["-P", "-m", module, *arguments]
        return forks().start(f"from {__name__} import run; run()", words, file, file, env=env)


def run() -> None:
    """Run the module that `sys.argv` names, as `python -P -m` does; the services that it starts are forks of it."""
    os.setsid()
    supervise._LONGEST_PAUSE_S = 0.2
    supervise.start = start
    _be_alone()
    if WINDOW in os.environ:
        from gpuq_workers import serve

        serve.Sampler = partial(serve.Sampler, window_s=float(os.environ[WINDOW]))
    # An interpreter reads it at its start.
    sys.path[:0] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    _run(sys.argv[2:])


def _be_alone() -> None:
    """Let CPU devices show nothing of other programs of this machine."""
    from gpuq.adapters.cpu.backend import CpuBackend

    def load(_self: CpuBackend, _resident: object, usage: Any, *_: object) -> Any:
        return usage if usage.utilization_pct is None else replace(usage, foreign_load=0.0)

    CpuBackend._foreign_memory = lambda self, _used: dict.fromkeys(self._cores, 0)  # type: ignore[method-assign]
    CpuBackend._smoothed_foreign = lambda *given: None if given[2] is None else 0.0  # type: ignore[method-assign]
    CpuBackend._with_foreign = load  # type: ignore[method-assign]


async def start(spec: supervise.ChildSpec) -> asyncio.subprocess.Process:
    """As `supervise.start`, but most services of ours become forks, which never come to the start of their interpreter."""
    is_ours = spec.argv[0] == sys.executable and _OF_JOINED_HOSTS not in spec.argv
    supervise._die_with_parent = partial(_serve, spec) if is_ours else _die_with_parent
    return await _start(spec)


def _serve(spec: supervise.ChildSpec) -> None:
    """Be that service in this fork, which has its session and its standard streams already, until it ends."""
    _die_with_parent()
    _forget_parent(spec.inherits)
    os.environ.update(spec.env or {})
    show_as(list(spec.argv))
    code = 1
    try:
        _run(list(spec.argv[3:]))
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except Exception:  # noqa: BLE001  # an interpreter prints it and ends
        sys.excepthook(*sys.exc_info())
    finally:
        threading._shutdown()  # waits for its threads
        atexit._run_exitfuncs()
        sys.stderr.flush()
        os._exit(code)


def _forget_parent(kept: Sequence[int]) -> None:
    """Leave what a new interpreter would not have: the parent's open files, and its handlers of signals."""
    gc.freeze()  # objects of the parent are never collected: each would close a file by a number that is another's now
    gc.enable()  # `subprocess` has turned it off
    first = 3
    for descriptor in (*sorted(kept), os.sysconf("SC_OPEN_MAX")):
        os.closerange(first, descriptor)
        first = descriptor + 1
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)


def _run(words: list[str]) -> None:
    sys.argv = words
    spec = find_spec(words[0])
    assert spec is not None
    is_package = spec.submodule_search_locations is not None
    module = f"{words[0]}.__main__" if is_package else words[0]
    sys.modules.pop(module, None)  # it is run, whether it was imported or not
    runpy.run_module(module, run_name="__main__", alter_sys=True)
