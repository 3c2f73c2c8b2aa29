"""The worker service, one per host: it watches the attempts that run here, measures them and reports to the dispatcher.

It sends a report every second and the spooled events, and keeps the RQ worker alive, which starts and stops attempts. Its own
end touches no job: those are children of their shims.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from systemd_watchdog import WatchDog

from gpuq.adapters.lock import only_one
from gpuq.adapters.process import boot_id
from gpuq.adapters.supervise import ChildSpec, python_module, supervise
from gpuq.adapters.tasks import end, wait_for_event
from gpuq.core.state.device import DeviceId, HostId, NoStarts
from gpuq.core.state.events import HostReported, ResidentReport
from gpuq.errors import GpuqError
from gpuq.home import key_of_this_host
from gpuq.logs import report, shorten, start_log
from gpuq.messages import codec, wire
from gpuq.settings import Settings, load
from gpuq_workers.deliver import Delivery
from gpuq_workers.epoch import SeenEpoch
from gpuq_workers.host_lease import HostLease, instance_of
from gpuq_workers.host_name import take_name
from gpuq_workers.job_lease import lease_file, remove_former, renew
from gpuq_workers.loans import Lender
from gpuq_workers.measuring.blink import Blinker
from gpuq_workers.measuring.sample import Sampler
from gpuq_workers.measuring.sampler_thread import SamplerThread
from gpuq_workers.orders_process import OrdersProcess
from gpuq_workers.pauses import Pauser
from gpuq_workers.residents import Residents
from gpuq_workers.room import Room
from gpuq_workers.serve_requests import serve_requests
from gpuq_workers.shim_ends import ShimEnds
from gpuq_workers.spool import Spool
from gpuq_workers.uplink import Inbox, open_uplink

log = logging.getLogger(__name__)
T = TypeVar("T")

_LOOK_EVERY_S, _REPORT_EVERY_S, _PING_EVERY_S, _PRUNE_EVERY_S, _BLINK_EVERY_S = 0.1, 1.0, 1.0, 3600.0, 0.3
_LOANS_EVERY_S = 0.025
_FIRST_SAMPLE_WITHIN_S = 5.0
# A job that needs its most memory within its first seconds may have ended before the second sample.
_MEMORY_EVERY_S, _YOUNG_S = 0.1, 5.0
_KEEP_EVENTS_S = 86_400.0


class WorkerService:
    """Samples, reports and delivers until it is stopped.

    `orders` is the process to supervise that follows orders, None for none; `serve_requests` answers what the API asks of
    this host, until cancelled. `unreachable`: why the record cannot be reached.
    """

    def __init__(
        self,
        settings: Settings,
        sampler: Sampler,
        inbox: Inbox,
        orders: ChildSpec | None,
        serve_requests: Callable[[], Coroutine[Any, Any, None]] | None = None,
        unreachable: Callable[[], NoStarts | None] = lambda: None,
    ) -> None:
        self._unreachable = unreachable
        self._settings, self._orders, self._serve_requests = settings, orders, serve_requests
        self._host = HostId(settings.worker.host)
        self._instance = instance_of(settings.home)
        self._spool = Spool(settings.home.spool, settings.worker.host)
        self._watch = SamplerThread(sampler, settings.worker.sample_every_s)
        self._residents = Residents(
            settings.home.attempts,
            self._spool,
            self._watch.finish,
            settings.worker.grace_s,
            self._instance,
            settings.worker.run_as == "submitter",
            sample=lambda: self._watch.sample,
        )
        self._room, self._orders_process = Room(settings.home.attempts), OrdersProcess()
        self._blinker = Blinker(settings.worker.blink, self._residents.watched, self._watch, random.SystemRandom())
        key = key_of_this_host(settings.home, settings.worker.host)
        self._delivery = Delivery(self._spool, inbox, settings.worker.host, key, SeenEpoch(settings.home.epoch_file))
        self._delivery.on_answer = partial(renew, lease_file(settings))
        self._pauser = Pauser(self._residents.running, lambda: list(self._residents.present()), self._delivery.look)
        self._delivery.on_pauses = self._pauser.heard
        self._spooled = asyncio.Event()
        self._lender = Lender(self._residents.running, self._delivery.look)
        self._delivery.on_loans = self._lender.heard

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set. An exception in any of its tasks ends the service, and its supervisor starts it again."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
            systemd = WatchDog(link)

            async def ping() -> None:
                systemd.notify()  # `systemd.ping` goes by the wall clock, which may be set back

            await _tried(self._residents.look)
            with suppress(TimeoutError):  # the first report should have devices in it
                await asyncio.wait_for(self._sample(), _FIRST_SAMPLE_WITHIN_S)
            periodic = [
                self._look(),
                self._deliver(),
                _every(self._settings.worker.sample_every_s, self._sample),
                _every(_MEMORY_EVERY_S, self._sample_memory_of_young),
                _every(_REPORT_EVERY_S, lambda: self._delivery.report(self.report())),
                _every(_PING_EVERY_S, ping),
                _every(_BLINK_EVERY_S, self._blinker.poll),
                _every(_LOOK_EVERY_S, self._pauser.poll),
                _every(_LOANS_EVERY_S, self._lender.poll),
                _every(_PRUNE_EVERY_S, self._prune),
                *([self._serve_requests()] if self._serve_requests is not None else []),
            ]
            systemd.ready()
            try:
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(one) for one in periodic]
                    if self._orders is not None:
                        group.create_task(supervise(self._orders, stop, self._orders_process.crashed))
                    await stop.wait()
                    await end(tasks)
            finally:
                self._watch.close()
                self._residents.ended.save()

    async def _look(self) -> None:
        ends = ShimEnds()
        try:
            while True:
                again_at = time.monotonic() + _LOOK_EVERY_S
                if await _tried(self._residents.look):
                    self._spooled.set()
                ends.watch(self._residents.shims())
                await ends.wait(again_at - time.monotonic())
        finally:
            ends.close()

    async def _deliver(self) -> None:
        # Not in one task with the looks: those must go on where Redis does not answer.
        reported: tuple[dict[DeviceId, str], NoStarts | None] = ({}, None)
        while True:
            held = self._residents.held(), self._no_starts()
            # Before the end because of which nothing is to start: else another job would be launched meanwhile.
            if held != reported:
                await self._delivery.report(self.report())
                reported = held
            await self._delivery.poll()
            await wait_for_event(self._spooled, _LOOK_EVERY_S)
            self._spooled.clear()

    async def _prune(self) -> None:
        ended = self._residents.ended
        await asyncio.to_thread(ended.prune, self._settings.worker.keep_attempts_days, time.time())
        await asyncio.to_thread(ended.save)
        self._spool.prune(_KEEP_EVENTS_S)
        remove_former(self._settings.home.run)
        await asyncio.to_thread(shorten, self._settings.home.logs / "shims.log")

    async def _sample(self) -> None:
        await self._watch.look(self._residents.watched())

    async def _sample_memory_of_young(self) -> None:
        began = time.time() - _YOUNG_S
        young = [one for one in self._residents.running() if one.started_at is not None and one.started_at >= began]
        if young:
            await self._watch.look_at_memory(young)

    def _no_starts(self) -> NoStarts | None:
        return (
            self._unreachable()
            or self._room.no_starts()
            or self._orders_process.no_starts()
            or self._residents.no_starts()
        )

    def report(self) -> wire.HostReport:
        """All devices, readings and residents as of now. An attempt leaves it once its end is in the spool."""
        sample = self._watch.sample
        rows = {row.attempt: row for row in sample.residents} if sample else {}
        held = self._residents.held()
        of = self._settings.devices
        readings = sample.readings if sample else ()
        event = HostReported(
            host=self._host,
            boot_id=boot_id(),
            at=time.time(),
            devices=tuple(
                replace(device, features=of.features, until_at=of.until_at or None) for device in self._watch.devices
            ),
            readings=tuple((id_, replace(one, unwell=one.unwell or held.get(id_))) for id_, one in readings),
            residents=tuple(
                rows.get(attempt) or ResidentReport(attempt=attempt, started_at=started_at)
                for attempt, started_at in self._residents.present().items()
            ),
            instance=self._instance,
            address=self._settings.worker.address or None,
            no_starts=self._no_starts(),
        )
        return wire.HostReport(self._host, self._spool.last, codec.plain(event))


async def _tried(act: Callable[[], Awaitable[T]]) -> T | None:
    """What it returns; None after an OSError. A descriptor or a file that is lacking now may be there at the next turn, and a
    device that is not read meanwhile counts as that."""
    try:
        return await act()
    except OSError as error:
        log.warning("%s; this is tried again", error)
        return None


async def _every(seconds: float, act: Callable[[], Awaitable[object]]) -> None:
    while True:
        began = time.monotonic()
        await _tried(act)
        await asyncio.sleep(max(0.0, began + seconds - time.monotonic()))


async def serve(service: WorkerService, lease: HostLease) -> None:
    """Run the service until SIGTERM or SIGINT. Raises Conflict if another instance takes the lease of the host's name."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    keeping = asyncio.create_task(lease.keep())
    keeping.add_done_callback(lambda _: stop.set())  # without the lease, another instance may take the name
    try:
        await service.run(stop)
    finally:
        keeping.cancel()
    with suppress(asyncio.CancelledError):
        await keeping


def main() -> int:
    """The worker service of this host; its exit code."""
    start_log()
    try:
        settings = load()
        settings.home.create()
        with only_one(settings.home.run / "worker.lock", "A worker service"):
            asyncio.run(_open_and_serve(settings))
    except GpuqError as error:
        return report(error)
    return 0


async def _open_and_serve(settings: Settings) -> None:
    from gpuq_workers import mps, trees
    from gpuq_workers.backend import open_backend

    gc.freeze()  # modules stay to the end; otherwise the last collection looks through them, most of what a stop takes
    backend = open_backend(settings)
    uplink = open_uplink(settings)
    lease = HostLease(uplink.open_claims, settings.worker.host, instance_of(settings.home))
    await lease.take()
    take_name(settings.home, settings.worker.host)
    if settings.devices.mps:
        mps.start(settings)
    sampler = Sampler(backend, level_after_s=settings.learning.level_after_s)
    orders = ChildSpec(
        "orders",
        python_module(uplink.orders),
        settings.home.logs / "orders.log",
        status=settings.home.run / "service-orders.json",
    )
    requests = partial(
        serve_requests,
        uplink.requests,
        settings.worker.host,
        key_of_this_host(settings.home, settings.worker.host),
        settings.home.attempts,
    )
    try:
        with trees.serving(settings.home) if settings.worker.run_as == "submitter" else nullcontext():
            service = WorkerService(settings, sampler, uplink.inbox, orders, requests, lambda: lease.unreachable)
            await serve(service, lease)
    finally:
        await uplink.close()
        sampler.close()
        if settings.devices.mps:
            mps.stop(settings)
