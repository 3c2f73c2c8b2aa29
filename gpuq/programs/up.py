"""`gpuq up`: supervises the whole of gpuq for one user, without root and without a server.

It starts Redis (unless the settings name one), upgrades the database, then keeps the dispatcher, the API and the worker service
running. SIGINT (Ctrl-C) and SIGTERM end those and leave the jobs running, each under its shim; the next `gpuq up` takes them
over. SIGUSR1, sent by `gpuq down --stop-jobs`, ends the jobs too. SIGHUP, sent when the terminal closes, does not end it, as
otherwise waiting jobs would never start; with `--stop-jobs` it ends gpuq and its jobs.

`run/up.json` has this process's id and, at its end, the jobs that it left: `gpuq down` reads both.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import errno
import gc
import json
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from systemd_watchdog import WatchDog

from gpuq import notify_file
from gpuq.adapters.lock import only_one
from gpuq.adapters.redis import server
from gpuq.adapters.redis.stream import RedisStream
from gpuq.adapters.store import open_store
from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.migrate import upgrade
from gpuq.adapters.supervise import ChildSpec, Crash, python_module, supervise
from gpuq.api.sockets import open_tcp
from gpuq.core.state.job import ACTIVE, JobState
from gpuq.errors import BadSettings, Conflict, Failure, GpuqError, Unreachable
from gpuq.home import Home, private_secret, write_private
from gpuq.logs import report, shorten, start_log
from gpuq.settings import Api, Settings, load, unknown_variables

log = logging.getLogger("gpuq.up")

_READY_WITHIN_S = 30.0
_LOOK_EVERY_S = 0.1
_STOP_SLACK_S = 10.0
# After a `gpuq up` was killed, its endpoint takes a few seconds to end.
_PORT_FREE_WITHIN_S = 5.0
_SHORTEN_EVERY_S = 10.0
_LOOK_FOR_FILES_EVERY_S = 2.0
# A service that crashes this often before gpuq is up is taken not to start at all. Wrong settings and a missing driver or server
# (exit codes 2 and 4) do not go away by themselves, so there the first crash counts.
_CRASHES_AT_START = 5
_REFUSALS = (BadSettings.exit_code, Unreachable.exit_code)
# The services of a killed `gpuq up` need a few seconds to release their locks.
_WAITS = (Conflict.exit_code,)


def main() -> int:
    """Run until Ctrl-C or SIGTERM, and return the exit code."""
    options = _parse()
    gc.freeze()  # modules stay to the end; otherwise the last collection looks through them, most of what a stop takes
    start_log()
    try:
        settings = load(_environment(options))
        if not settings.home.is_in_use:
            open_tcp(settings.api).close()  # refused before anything is made
        settings.home.create()
        if settings.home.is_open_to_others:
            _print_error(
                f"gpuq: other users may look into {settings.home.root}. To close it: chmod 700 {settings.home.root}"
            )
        with only_one(settings.home.run / "up.lock", "`gpuq up`", "`gpuq down` ends that one"):
            return asyncio.run(_Up(settings, stop_jobs=options.stop_jobs, ready_fd=options.ready_fd).run())
    except GpuqError as error:
        return report(error)
    except OSError as error:
        return report(_of_system(error, settings.home))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="gpuq up", description="Run the whole of gpuq.")
    parser.add_argument("--port", type=int, help="TCP port for HTTP; 0 picks a free one")
    parser.add_argument("--stop-jobs", action="store_true", help="at the end, end the running jobs too")
    parser.add_argument(
        "--ready-fd",
        type=int,
        help="go to the background once ready: output goes to logs/up.log, and a byte to this pipe",
    )
    return parser.parse_args()


def _environment(options: argparse.Namespace) -> dict[str, str]:
    if options.port is not None:
        os.environ["GPUQ_API_PORT"] = str(options.port)
    return dict(os.environ)


@dataclass(frozen=True)
class _Remaining:
    """What remains when gpuq has ended: the ids of running jobs, and how many wait for the next `gpuq up`."""

    running: tuple[int, ...]
    waiting: int

    def __str__(self) -> str:
        lines = []
        if self.running:
            lines.append(
                f"Still running, and taken up again by the next `gpuq up`: {', '.join(map(str, self.running))}"
            )
        if self.waiting:
            lines.append(
                f"{self.waiting} waiting {'jobs start' if self.waiting > 1 else 'job starts'} with the next `gpuq up`."
            )
        return "\n".join(lines)


class _Up:
    def __init__(self, settings: Settings, *, stop_jobs: bool, ready_fd: int | None) -> None:
        self._settings = settings
        self._home = settings.home
        self._stop_jobs = stop_jobs
        self._ready_fd = ready_fd
        self._stops: list[tuple[asyncio.Event, asyncio.Task[None]]] = []
        self._asked_to_stop = asyncio.Event()
        self._tcp: socket.socket | None = None
        self._starting = True
        self._refusal: GpuqError | None = None
        # Only this process notifies systemd: a notification of a child would count as its own.
        self._systemd = WatchDog()
        os.environ.pop("NOTIFY_SOCKET", None)

    async def run(self) -> int:
        """Start all services, wait for a signal, stop them in reverse order. Raises GpuqError when one does not start."""
        self._listen_to_signals()
        self._note(None)
        shortening = asyncio.create_task(self._keep_log_short())
        optional: asyncio.Task[None] | None = None
        try:
            starting = asyncio.create_task(self._start())
            await _first_of(starting, self._asked_to_stop.wait())
            if starting.done():
                starting.result()
                self._starting = False
                self._greet()
                optional = asyncio.create_task(self._start_optional())
                await self._asked_to_stop.wait()
            else:
                starting.cancel()
                await asyncio.wait({starting})
            left = await asyncio.to_thread(self._leave)
        finally:
            shortening.cancel()
            if optional is not None:
                optional.cancel()
            await self._stop_all()
        self._note(left)
        if left is not None and str(left):
            _print_error(str(left))
        return 0

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._asked_to_stop.set)
        loop.add_signal_handler(signal.SIGUSR1, self._end_with_jobs)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # `nohup gpuq up` ignores it already
            loop.add_signal_handler(signal.SIGHUP, self._terminal_closed)

    def _end_with_jobs(self) -> None:
        self._stop_jobs = True
        self._asked_to_stop.set()

    def _terminal_closed(self) -> None:
        self._to_log_file()
        if self._stop_jobs:
            log.info("the terminal was closed; gpuq and its jobs end")
            self._asked_to_stop.set()
        else:
            log.info("the terminal was closed; gpuq goes on, and `gpuq down` ends it")

    def _to_log_file(self) -> None:
        """Redirect this process's output to logs/up.log."""
        descriptor = os.open(self._home.logs / "up.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for standard in (1, 2):
            os.dup2(descriptor, standard)
        os.close(descriptor)

    def _note(self, left: _Remaining | None) -> None:
        ended = None if left is None else {"running": left.running, "waiting": left.waiting}
        body = {"pid": os.getpid(), "stop_jobs": self._stop_jobs, "left": ended}
        write_private(self._home.run / "up.json", json.dumps(body).encode(), durable=False)

    async def _start(self) -> None:
        # Held open to the end, so that no other program can take the port, and with it the users' tokens, while the API is
        # started again.
        self._tcp = await _open_port(self._settings.api)
        private_secret(self._home.order_key_file)
        private_secret(self._home.token_file)
        if self._settings.redis_url is None:
            server.end_stale(self._home)
            self._keep(server.prepare(self._home))
        await server.wait_ready(self._settings.effective_redis_url, _READY_WITHIN_S)
        await asyncio.to_thread(upgrade, self._settings.database_url)
        (self._home.run / "http.json").unlink(missing_ok=True)
        services = [("dispatcher", "gpuq.daemon")]
        if self._settings.devices.backend != "none":
            services.append(("worker", "gpuq_workers"))
        if self._settings.api.hosts_at:
            services.append(("hosts", "gpuq.api.hosts"))
        for name, module in services:
            self._keep(ChildSpec(name, python_module(module), self._home.logs / f"{name}.log"))
        tcp = self._tcp.fileno()
        api = python_module("gpuq.api", "--tcp-fd", str(tcp))
        self._keep(ChildSpec("api", api, self._home.logs / "api.log", inherits=(tcp,)))
        if not await self._until(self._has_api):
            raise Failure(
                f"the HTTP endpoint did not start within {_READY_WITHIN_S:.0f} s.",
                fix=f"Look into {self._home.logs / 'api.log'}.",
            )
        if self._settings.devices.backend != "none":
            await self._wait_for_devices()

    def _keep(self, spec: ChildSpec) -> None:
        stop = asyncio.Event()
        # Each child's output and state go to files that `gpuq doctor` reads.
        spec = replace(
            spec, log=self._home.logs / f"{spec.name}.log", status=self._home.run / f"service-{spec.name}.json"
        )
        self._stops.append((stop, asyncio.create_task(supervise(spec, stop, self._crashed), name=spec.name)))

    def _crashed(self, crash: Crash) -> None:
        if crash.name == "redis" and server.is_damaged(crash.said):
            with contextlib.suppress(OSError):
                aside = server.set_data_aside(self._home)
                log.warning("Redis could not read its data, which is in %s now; nothing is lost by that", aside)
                return
        if not self._starting:
            log.warning("%s", crash)
        elif crash.code == BadSettings.exit_code:
            self._refusal = BadSettings(crash.said, fix=crash.fix)
        elif crash.code in _REFUSALS or (crash.in_a_row >= _CRASHES_AT_START and crash.code not in _WAITS):
            fix = crash.fix or f"Look into {crash.log}."
            self._refusal = Failure(f"the {crash.name} did not start: {crash.said}", fix=fix)

    async def _until(self, look: Callable[[], Awaitable[bool]]) -> bool:
        """Wait until `look` returns true; False after _READY_WITHIN_S. Raises the reason why a service does not start."""
        deadline = time.monotonic() + _READY_WITHIN_S
        while True:
            if self._refusal is not None:
                raise self._refusal
            if await look():
                return True
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _has_api(self) -> bool:
        return (self._home.run / "http.json").exists()

    async def _wait_for_devices(self) -> None:
        """Wait until the dispatcher shows a fresh reading of a device of this host: from then on a job can start."""
        began = time.time()
        stream = RedisStream(self._settings.effective_redis_url)
        try:
            if not await self._until(lambda: _shows_devices(stream, self._settings.worker.host, began)):
                _print_error(
                    f"No device of this host was read within {_READY_WITHIN_S:.0f} s; `gpuq doctor` may say why."
                )
                return
            _print_policy_fault(json.loads(await stream.view() or b"{}"))
        except Unreachable:
            return  # Redis answered a moment ago; its supervision restarts it
        finally:
            await stream.close()

    def _greet(self) -> None:
        address = json.loads((self._home.run / "http.json").read_text())["url"]
        _print_error(f"gpuq is up: home {self._home.root}, {address}")
        if sys.stderr.isatty():
            _print_error(f"The page: {address}?token={private_secret(self._home.token_file)}")
        else:  # the token must not get into a file or a journal
            _print_error("The page: `gpuq open`, or the address that `gpuq url` prints.")
        for unknown in unknown_variables(os.environ):
            _print_error(f"No setting, and without effect: the environment variable {unknown}")
        jobs = "ends gpuq and the running jobs" if self._stop_jobs else "ends gpuq and leaves jobs running"
        if self._ready_fd is not None:
            _print_error(
                f"Submit with `gpuq submit train.py`; `gpuq down` {jobs}. Its messages: {self._home.logs / 'up.log'}"
            )
            self._to_log_file()
            os.write(self._ready_fd, b"1")
            os.close(self._ready_fd)
        else:
            closing = "so does closing" if self._stop_jobs else "it goes on after closing"
            _print_error(f"Submit with `gpuq submit train.py`; Ctrl-C or `gpuq down` {jobs}; {closing} the terminal.")
        with contextlib.suppress(OSError):
            self._systemd.ready()

    async def _keep_log_short(self) -> None:
        while True:
            shorten(self._home.logs / "up.log")
            await asyncio.sleep(_SHORTEN_EVERY_S)

    async def _start_optional(self) -> None:
        """Run the process that sends notifications once the user has targets, and the one that requests pilots once there is a
        pool. They start last: the queue does not need them."""
        wanted = {
            "notifier": ("gpuq.notifier", notify_file.path(os.environ)),
            "pools": ("gpuq.pools", self._home.pools_file),
        }
        while wanted:
            for name, (module, file) in list(wanted.items()):
                if file.exists():
                    del wanted[name]
                    self._keep(ChildSpec(name, python_module(module), self._home.logs / f"{name}.log"))
            await asyncio.sleep(_LOOK_FOR_FILES_EVERY_S)

    def _leave(self) -> _Remaining | None:
        """End the jobs if --stop-jobs was given. Returns what is left, None if the record cannot be read."""
        try:
            store = open_store(self._settings.database_url)
        except GpuqError as error:
            log.warning("cannot tell what still runs: %s", error.message)
            return None
        try:
            if self._stop_jobs:
                _end_jobs(store, self._settings.worker.grace_s + _STOP_SLACK_S)
            running = tuple(int(row.id) for row in store.jobs(states=list(ACTIVE)))
            return _Remaining(running, store.count_by_state().get(JobState.PENDING, 0))
        finally:
            store.close()

    async def _stop_all(self) -> None:
        if self._tcp is not None:
            self._tcp.close()  # else callers would wait for an API that is not started again
        for stop, task in reversed(self._stops):
            stop.set()
            await task


async def _first_of(*works: Awaitable[object]) -> None:
    """Return when one of these is done. Tasks that this function made of coroutines are cancelled then."""
    tasks = [asyncio.ensure_future(work) for work in works]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task, work in zip(tasks, works, strict=True):
        if task is not work:
            task.cancel()


async def _open_port(api: Api) -> socket.socket:
    """The listening TCP socket, once the port is free. Raises Failure."""
    deadline = time.monotonic() + _PORT_FREE_WITHIN_S
    while True:
        try:
            return open_tcp(api)
        except Failure:
            if time.monotonic() > deadline:
                raise
        await asyncio.sleep(_LOOK_EVERY_S)


async def _shows_devices(stream: RedisStream, host: str, since: float) -> bool:
    """Whether a device of this host was read since `since`; the view may also show devices of earlier workers."""
    try:
        view = await stream.view()
    except Unreachable:
        return False  # its supervision restarts Redis
    devices = json.loads(view or b"{}").get("devices", [])
    return any(device["host"] == host and (device["read_at"] or 0.0) >= since for device in devices)


def _print_policy_fault(view: dict[str, Any]) -> None:
    """Print that the policy of the settings cannot be used: the user who chose it sees this output, not the dispatcher's
    log.
    """
    policy = view.get("dispatcher", {}).get("policy") or {}
    if policy.get("fault"):
        _print_error(
            f"The policy `{policy['chosen']}` is replaced by `{policy['serving']}`: {policy['fault']['reason']}"
        )


def _end_jobs(store: Store, within_s: float) -> None:
    """Pause the queue, cancel every running job, and wait up to `within_s` seconds until the record shows their ends."""
    store.add_request("pause", None, "gpuq up --stop-jobs", time.time(), {})
    for row in store.jobs(states=list(ACTIVE)):
        store.add_request("cancel", row.id, "gpuq up --stop-jobs", time.time(), {})
    deadline = time.monotonic() + within_s
    while store.jobs(states=list(ACTIVE)) and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY_S)


def _of_system(error: OSError, home: Home) -> Failure:
    """The sentence for what the system refuses to this process, such as a full disk."""
    where = "" if error.filename is None else f" ({error.filename})"
    is_full = error.errno in {errno.ENOSPC, errno.EDQUOT}
    fix = f"Free some space in {home.root}" if is_full else "Mend that"
    return Failure(f"it cannot run: {error.strerror or error}{where}.", fix=f"{fix}, then `gpuq up` again.")


def _print_error(sentence: str) -> None:
    with contextlib.suppress(OSError):  # the terminal may be gone
        sys.stderr.write(f"{sentence}\n")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
