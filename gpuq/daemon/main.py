"""The dispatcher process, `python -m gpuq.daemon`: builds the parts, runs them, and closes the store.

A lock allows one dispatcher per home. Of several homes with one record one dispatcher leads, and the others stand by. When this
one comes to lead, it rebuilds the state from the record. A policy that cannot be made is replaced by the default, because jobs
must not wait because of a policy; other wrong settings end the process. A part that fails ends the process, and so does the loss
of the leadership. Its supervisor starts it again; it stands by, or continues from the record.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

from systemd_watchdog import WatchDog

from gpuq.adapters.lock import only_one
from gpuq.adapters.redis.queue import RqOrderSender
from gpuq.adapters.redis.stream import RedisStream
from gpuq.adapters.store import open_store
from gpuq.adapters.systemd import extend_start
from gpuq.daemon.clock import SteadyClock
from gpuq.daemon.credentials import Credentials
from gpuq.daemon.inbox import EventInbox
from gpuq.daemon.journal import Journal
from gpuq.daemon.leadership import Lease, holder_name, renew_during, stand_by
from gpuq.daemon.learner import Learner
from gpuq.daemon.loop import Dispatcher, DispatcherDependencies
from gpuq.daemon.order_key import order_key, record_key
from gpuq.daemon.perform import Performer
from gpuq.daemon.restore import restore
from gpuq.daemon.shadow import Shadow, exclusively
from gpuq.daemon.start_estimates import StartEstimates
from gpuq.daemon.tasks import Tasks
from gpuq.errors import GpuqError
from gpuq.keys import private_key
from gpuq.learn.serving.shelf import Shelf
from gpuq.logs import report, start_log
from gpuq.messages.wire import HostKeys
from gpuq.policies.guard import Guarded, guard
from gpuq.settings import Settings, load

log = logging.getLogger(__name__)

# Well below WatchdogSec of the systemd unit.
_PING_S = 2.0


def main() -> int:
    """Run the dispatcher until SIGTERM or SIGINT. Returns the exit code: that of the error if it could not start."""
    gc.freeze()  # modules stay to the end; otherwise the last collection looks through them, most of what a stop takes
    start_log()
    try:
        settings = load()
        settings.home.create()
        lock = settings.home.run / "dispatcher.lock"
        with only_one(lock, "A dispatcher"):
            asyncio.run(_run(settings, holder_name(settings.worker.host, lock)))
    except GpuqError as error:
        return report(error)
    return 0


async def _run(settings: Settings, holder: str) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    # Here in the main thread, since the time limit for making a policy needs signals.
    policy = guard(settings.scheduling)
    notify = WatchDog()
    # One thread for all blocking calls, so that they are made in order; only renewals during a restore have another.
    with ThreadPoolExecutor(1, thread_name_prefix="record") as pool:

        async def run_blocking(work: Callable[..., Any], *args: object) -> Any:
            return await loop.run_in_executor(pool, partial(work, *args))

        store = await run_blocking(open_store, settings.database_url)
        try:
            learner = Learner(store, Shelf(settings.home.models), settings.learning, settings.admission)
            await run_blocking(order_key, settings.home, settings.worker.host, store)
            extend_start()
            # Before it may lead, so that a takeover need not read the whole history.
            await run_blocking(learner.catch_up, time.time())
            epoch = await stand_by(store, holder, run_blocking, stop, partial(_tell_systemd, notify, "standby"))
            if epoch is not None:
                lease = Lease(store, holder, epoch, partial(time.clock_gettime, time.CLOCK_BOOTTIME))
                try:
                    making = run_blocking(_assemble, settings, lease, learner, policy, run_blocking)
                    dispatcher: Dispatcher = await renew_during(lease, making)
                    await _dispatch(dispatcher, notify, stop)
                finally:
                    await run_blocking(lease.release)
        finally:
            await run_blocking(store.close)


async def _dispatch(dispatcher: Dispatcher, notify: WatchDog, stop: asyncio.Event) -> None:
    """Run the dispatcher's loop until `stop` is set. Raises what ended it before."""
    tasks = Tasks()
    tasks.start("listen", dispatcher.listener.listen())
    tasks.start("cycle", dispatcher.run())
    tasks.start("pauses", dispatcher.acknowledger.renew_pauses())
    tasks.start("watchdog", _watch(dispatcher, notify))
    log.info("started with %d jobs and %d attempts", len(dispatcher.state.jobs), len(dispatcher.state.attempts))
    await tasks.run_until(stop)


def _assemble(
    settings: Settings, lease: Lease, learner: Learner, policy: Guarded, run_blocking: Callable[..., Any]
) -> Dispatcher:
    # A newer gpuq may have upgraded the record while this one stood by.
    open_store(settings.database_url).close()
    store = lease.store
    shadow = settings.scheduling.shadow
    limits = exclusively(settings.admission) if shadow else settings.admission
    if settings.database_url.startswith("sqlite"):
        # All hosts of the record are on this machine: no cut of a network can part them from it, only `gpuq down`.
        limits = replace(limits, lease_s=0.0)
    clock = SteadyClock()
    learner.catch_up(clock())
    last_seq = store.last_seq()
    state = restore(store, clock(), learner.register)
    key = order_key(settings.home, settings.worker.host, store)
    record_key(lease, settings.worker.host, key)
    keys = HostKeys(key)
    credentials = None
    if settings.worker.run_as == "submitter":
        credentials = Credentials(store, private_key(settings.home.dispatcher_key_file), time.time)
    parts = DispatcherDependencies(
        store=store,
        lease=lease,
        stream=RedisStream(settings.effective_redis_url),
        performer=Performer(RqOrderSender(settings.effective_redis_url), keys, limits.start_grace_s, credentials),
        learner=learner,
        policy=policy,
        limits=limits,
        clock=clock,
        run_blocking=run_blocking,
        idle=settings.idle,
        shadow=Shadow.of(settings.admission, learner.answer, store, state) if shadow else None,
        starts=StartEstimates(settings.scheduling, time.monotonic, settings.home.starts, state),
    )
    inbox = EventInbox({host: seq for host, (_, seq) in store.hosts().items()}, keys)
    return Dispatcher(parts, state, Journal(last_seq), inbox)


async def _watch(dispatcher: Dispatcher, notify: WatchDog) -> None:
    """Ping systemd's watchdog while the dispatcher loop runs."""
    last_beat = -1.0
    while True:
        if dispatcher.beat != last_beat:
            last_beat = dispatcher.beat
            _tell_systemd(notify, "leader")
        await asyncio.sleep(_PING_S)


def _tell_systemd(notify: WatchDog, status: str) -> None:
    """Notify systemd that the service is ready, ping its watchdog, and say whether this dispatcher leads (`systemctl status`).

    Without systemd the calls do nothing.
    """
    notify.ready()
    notify.status(status)
    notify.notify()
