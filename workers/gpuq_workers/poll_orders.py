"""Follow the orders of a host that joined: `python -m gpuq_workers.poll_orders`. It takes them from the main host, one by one.

In its own process as `serve_orders`, so that a restart of the worker service touches no order that is being followed.
"""

from __future__ import annotations

import gc
import logging
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, Protocol

from gpuq.adapters.main_host import RemoteClaims, RemoteMail
from gpuq.errors import BadSettings, GpuqError
from gpuq.home import key_of_this_host
from gpuq.logs import report, start_log
from gpuq.settings import Settings, load
from gpuq_workers import run_job
from gpuq_workers.backend import open_backend
from gpuq_workers.host_lease import instance_of
from gpuq_workers.launcher import launcher_of
from gpuq_workers.uplink import joined_as

log = logging.getLogger(__name__)

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0


class Orders(Protocol):
    """Where orders come from."""

    def order(self) -> Any | None:
        """The next order, as it was signed; None if none comes within two seconds. Raises GpuqError."""
        ...


def poll(orders: Orders, follow: Callable[[Any], None], stop: threading.Event) -> None:
    """Follow orders until `stop` is set. While the main host does not answer, the next try comes after a growing pause."""
    pause, is_reachable = _FIRST_PAUSE_S, True
    while not stop.is_set():
        try:
            order = orders.order()
        except GpuqError as error:
            if is_reachable:
                log.warning("orders wait: %s", error, extra={"action": "orders"})
            is_reachable = False
            stop.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)
            continue
        pause, is_reachable = _FIRST_PAUSE_S, True
        if order is not None:
            try:
                follow(order)
            except Exception:
                log.exception("an order failed")


def main() -> int:
    """Follow this host's orders until SIGTERM; returns the exit code."""
    gc.freeze()  # modules stay to the end; otherwise the last collection looks through them, most of what a stop takes
    start_log()
    try:
        settings = load()
        settings.home.create()
        _serve(settings)
    except GpuqError as error:
        return report(error)
    return 0


def _serve(settings: Settings) -> None:
    where = joined_as(settings)
    if where is None:
        raise BadSettings(f"{settings.home.root} joined no main host.", fix="Start `python -m gpuq_workers` there.")
    stop = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            return  # it ends already, and is not to be interrupted in closing what it has
        stop.set()
        if not following.locked():
            raise _Ended

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    following = threading.Lock()
    context = run_job.OrderContext(
        settings=settings,
        key=key_of_this_host(settings.home, settings.worker.host),
        store=RemoteClaims(settings.home, where),
        backend=open_backend(settings),
        launcher=launcher_of(settings),
        instance=instance_of(settings.home),
    )
    context.launcher.warm()

    def follow(signed: Any) -> None:
        with following:
            run_job.run(context, signed)

    with suppress(_Ended):
        poll(RemoteMail(settings.home, where), follow, stop)
    context.launcher.close()


class _Ended(BaseException):
    """SIGTERM came while no order was followed."""


if __name__ == "__main__":
    sys.exit(main())
