"""`gpuq up`: the whole of gpuq for one user, in the foreground, with no root and no server.

It starts Redis (unless one is named), brings the database up to date, then keeps the dispatcher, the API and the worker
service alive. Ctrl-C ends those and leaves the jobs running, each under its shim; the next `gpuq up` takes them up again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from dataclasses import replace
from typing import Any, TextIO

from gpuq.adapters import redis_server
from gpuq.adapters.lock import only_one
from gpuq.adapters.store import open_store
from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.migrate import upgrade
from gpuq.adapters.stream import RedisStream
from gpuq.adapters.supervise import ChildSpec, python_module, supervise
from gpuq.api.server import open_tcp
from gpuq.core.job import ACTIVE
from gpuq.errors import Failure, GpuqError, Unreachable
from gpuq.home import private_secret
from gpuq.settings import Api, Settings, load

_READY_WITHIN_S = 30.0
_LOOK_EVERY_S = 0.1
_STOP_SLACK_S = 10.0
# A killed `gpuq up` leaves its endpoint a few seconds to end.
_PORT_FREE_WITHIN_S = 5.0


def main() -> int:
    """Run until Ctrl-C or SIGTERM; the exit code."""
    options = _parse()
    try:
        settings = load(_environment(options))
        settings.home.create()
        with only_one(settings.home.run / "up.lock", "`gpuq up`"):
            return asyncio.run(_Up(settings, stop_jobs=options.stop_jobs).run())
    except GpuqError as error:
        _say(f"gpuq: {error.message}\n  {error.fix}")
        return error.exit_code


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="gpuq up", description="Run the whole of gpuq in the foreground.")
    parser.add_argument("--port", type=int, help="TCP port for HTTP; 0 picks a free one")
    parser.add_argument("--stop-jobs", action="store_true", help="at the end, end the running jobs too")
    return parser.parse_args()


def _environment(options: argparse.Namespace) -> dict[str, str]:
    if options.port is not None:
        os.environ["GPUQ_API_PORT"] = str(options.port)
    return dict(os.environ)


class _Up:
    def __init__(self, settings: Settings, *, stop_jobs: bool) -> None:
        self._settings = settings
        self._home = settings.home
        self._stop_jobs = stop_jobs
        self._stops: list[tuple[asyncio.Event, asyncio.Task[None]]] = []

    async def run(self) -> int:
        """Start all parts, wait for the end, stop all parts in reverse."""
        asked_to_stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, asked_to_stop.set)
        try:
            await self._start()
            self._greet()
            await asked_to_stop.wait()
            await asyncio.to_thread(self._leave)
        finally:
            await self._stop_all()
        return 0

    async def _start(self) -> None:
        await _until_free(self._settings.api)
        private_secret(self._home.order_key_file)
        private_secret(self._home.token_file)
        if self._settings.redis_url is None:
            redis_server.end_stale(self._home)
            self._keep(redis_server.prepare(self._home))
        await redis_server.wait_ready(self._settings.effective_redis_url, _READY_WITHIN_S)
        await asyncio.to_thread(upgrade, self._settings.database_url)
        (self._home.run / "http.json").unlink(missing_ok=True)
        for name, module in (("dispatcher", "gpuq.daemon"), ("worker", "workers"), ("api", "gpuq.api")):
            self._keep(ChildSpec(name, python_module(module), self._home.logs / f"{name}.log"))
        await self._wait_for_api()
        await self._wait_for_devices()

    def _keep(self, spec: ChildSpec) -> None:
        stop = asyncio.Event()
        # Each child's output goes where `gpuq doctor` and people look for it.
        spec = replace(spec, log=self._home.logs / f"{spec.name}.log")
        self._stops.append((stop, asyncio.create_task(supervise(spec, stop, _say), name=spec.name)))

    async def _wait_for_api(self) -> None:
        deadline = time.monotonic() + _READY_WITHIN_S
        while not (self._home.run / "http.json").exists():
            if time.monotonic() > deadline:
                log = self._home.logs / "api.log"
                raise Failure(
                    f"the HTTP endpoint did not start within {_READY_WITHIN_S:.0f} s.", fix=f"Look into {log}."
                )
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _wait_for_devices(self) -> None:
        """Until the dispatcher shows a device: from then on a submission can start."""
        stream = RedisStream(self._settings.effective_redis_url)
        deadline = time.monotonic() + _READY_WITHIN_S
        try:
            while not await _shows_devices(stream):
                if time.monotonic() > deadline:
                    _say(f"No device has been reported yet; {self._home.logs / 'worker.log'} may say why.")
                    return
                await asyncio.sleep(_LOOK_EVERY_S)
            _say_policy(json.loads(await stream.view() or b"{}"))
        except Unreachable:
            return  # it answered a moment ago; its supervision brings it back
        finally:
            await stream.close()

    def _greet(self) -> None:
        port = json.loads((self._home.run / "http.json").read_text())["port"]
        _say(f"gpuq is up: home {self._home.root}, http://127.0.0.1:{port}/ (token in {self._home.token_file})")
        if sys.stderr.isatty():
            _say(f"The page: http://127.0.0.1:{port}/?token={private_secret(self._home.token_file)}")
        _say("Submit with `gpuq submit train.py`; Ctrl-C ends gpuq and leaves jobs running.")

    def _leave(self) -> None:
        store = open_store(self._settings.database_url)
        try:
            if self._stop_jobs:
                _end_jobs(store, self._settings.worker.grace_s + _STOP_SLACK_S)
            running = [str(row.id) for row in store.jobs(states=list(ACTIVE))]
        finally:
            store.close()
        if running:
            _say(f"Still running, and taken up again by the next `gpuq up`: {', '.join(running)}")

    async def _stop_all(self) -> None:
        for stop, task in reversed(self._stops):
            stop.set()
            await task


async def _until_free(api: Api) -> None:
    """Return once the TCP port can be had: said here, because a child could only say it into its log. Raises Failure."""
    deadline = time.monotonic() + _PORT_FREE_WITHIN_S
    while True:
        try:
            open_tcp(api).close()
        except Failure:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(_LOOK_EVERY_S)
        else:
            return


async def _shows_devices(stream: RedisStream) -> bool:
    try:
        view = await stream.view()
    except Unreachable:
        return False  # its supervision brings Redis back
    return bool(json.loads(view or b"{}").get("devices"))


def _say_policy(view: dict[str, Any]) -> None:
    """That the policy in the settings cannot be had is said here too: who has just written its name is still looking."""
    policy = view.get("dispatcher", {}).get("policy") or {}
    if policy.get("fault"):
        _say(f"The policy `{policy['chosen']}` is replaced by `{policy['serving']}`: {policy['fault']['reason']}")


def _end_jobs(store: Store, within_s: float) -> None:
    """Let nothing new start, ask for the end of every running job, and wait until the record says they ended."""
    store.add_request("pause", None, "gpuq up --stop-jobs", time.time(), {})
    for row in store.jobs(states=list(ACTIVE)):
        store.add_request("cancel", row.id, "gpuq up --stop-jobs", time.time(), {})
    deadline = time.monotonic() + within_s
    while store.jobs(states=list(ACTIVE)) and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY_S)


def _say(sentence: str, out: TextIO = sys.stderr) -> None:
    print(sentence, file=out, flush=True)


if __name__ == "__main__":
    sys.exit(main())
