"""The worker service as a whole: every start and end reaches the dispatcher, whatever else fails."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import itertools
import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from gpuq_workers import run_job, serve
from gpuq_workers.attempts import AttemptFolder
from gpuq_workers.measuring import sampler_thread
from gpuq_workers.serve import WorkerService
from systemd_watchdog import WatchDog

from gpuq.adapters import process
from gpuq.adapters.supervise import ChildSpec
from gpuq.core.state.device import NoStarts
from gpuq.core.state.events import Exited, HostReported, Started
from gpuq.messages import codec, reported
from gpuq.messages.wire import Verb
from gpuq.settings import Settings
from tests.support import patience
from tests.workers import twins
from tests.workers.conftest import shim_lives, wait_for
from tests.workers.twins import Inbox, OneClaim, StillSampler, attempt_id, order, spec


@pytest.fixture(autouse=True)
def _no_job_outlives_its_test(settings: Settings) -> Iterator[None]:
    yield
    for path in settings.home.attempts.iterdir():
        shim = AttemptFolder(path, attempt_id()).shim()
        if shim is not None:
            process.kill_tree(shim)
    for context in twins.contexts:
        context.launcher.shims.close()
        wait_for(
            lambda shims=context.launcher.shims: all(shim.is_gone() for shim in shims._serving),
            what="the end of the shims",
        )


@asynccontextmanager
async def serving(
    settings: Settings, inbox: Inbox, sampler: StillSampler | None = None, orders: ChildSpec | None = None
) -> AsyncIterator[WorkerService]:
    sampler = sampler or StillSampler()
    service = WorkerService(settings, sampler, inbox, orders)
    stop = asyncio.Event()
    running = asyncio.create_task(service.run(stop))
    try:
        yield service
    finally:
        stop.set()
        await asyncio.wait_for(running, 60)


async def until(condition: Callable[[], Any], what: str) -> Any:
    return await patience.until(condition, story=lambda: what)


def launch(settings: Settings, *command: str) -> None:
    context = twins.context(settings, OneClaim(spec(command)))
    run_job.run(context, order(Verb.LAUNCH))


def committed(inbox: Inbox) -> list[Any]:
    return [codec.from_plain(message.name, message.body) for message in inbox.committed]


def last_report(inbox: Inbox) -> HostReported:
    return codec.decoded(inbox.reports()[-1].body, HostReported)


def of_now(service: WorkerService) -> HostReported:
    return codec.decoded(service.report().body, HostReported)


async def test_a_job_is_reported_from_start_to_end(settings: Settings) -> None:
    inbox = Inbox()
    async with serving(settings, inbox) as service:
        launch(
            settings, "sh", "-c", "while [ ! -e go ]; do sleep 0.02; done".replace("go", str(settings.home.run / "go"))
        )
        await until(lambda: committed(inbox), "a start")
        await until(lambda: last_report(inbox).residents and last_report(inbox).residents[0].steps == 7, "its reading")
        report = last_report(inbox)
        assert (report.host, report.boot_id) == ("alpha", process.boot_id())
        assert [device.id for device in report.devices] == ["cpu-0"]
        assert [device for device, _ in report.readings] == ["cpu-0"]
        assert report.residents[0].started_at == committed(inbox)[0].at
        assert inbox.reports()[-1].last_seq == 1
        (settings.home.run / "go").touch()
        await until(lambda: len(committed(inbox)) == 2, "an end")
        assert codec.decoded(service.report().body, HostReported).residents == ()
    started, exited = committed(inbox)
    assert isinstance(started, Started)
    assert isinstance(exited, Exited)
    assert (exited.exit_code, exited.measurement.steps) == (0, 7)


async def test_a_device_that_was_lost_under_a_job_is_reported_unwell(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler_thread, "_SAMPLES_A_READING_LIVES", 1000.0)  # on a busy machine samples come late

    class LosesItsDevice(StillSampler):
        """Its driver answers for the device while no job is on it."""

        def sample(self, now: float, residents: Any) -> Any:
            sample = super().sample(now, residents)
            return replace(sample, readings=()) if residents else sample

        def devices(self) -> Any:
            return tuple(replace(device, backend="nvml") for device in super().devices())

    inbox = Inbox()
    go = settings.home.run / "go"
    async with serving(settings, inbox, LosesItsDevice()) as service:
        launch(
            settings, "sh", "-c", f"while [ ! -e {go} ]; do sleep 0.02; done; echo 'CUDA error: unknown error'; exit 1"
        )
        await until(lambda: (now := of_now(service)).residents and not now.readings, "no reading")
        go.touch()
        await until(lambda: len(committed(inbox)) == 2, "an end")
        await until(lambda: of_now(service).readings, "a reading")
        report = of_now(service)
    assert committed(inbox)[1].ending == "device failed"
    assert [(device, reading.unwell) for device, reading in report.readings] == [("cpu-0", "it failed under job 1")]


async def test_a_host_that_cannot_reach_the_record_says_so_at_once(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "_REPORT_EVERY_S", 60.0)
    inbox, fault = Inbox(), NoStarts("it cannot reach the record", 100.0)
    found: list[NoStarts] = []
    async with serving(settings, inbox) as service:
        service._unreachable = lambda: found[0] if found else None
        await until(inbox.reports, "the first report")
        found.append(fault)
        await until(lambda: len(inbox.reports()) > 1, "the next report, long before its time")
    first, *_, last = (codec.decoded(report.body, HostReported) for report in inbox.reports())
    assert (first.no_starts, last.no_starts) == (None, fault)
    assert reported.report(inbox.reports()[-1].body) == last, "the dispatcher takes it"


async def test_a_host_without_a_descriptor_left_reports_its_devices_as_unread_until_it_has_one(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of the machine that may pass ends no service."""
    monkeypatch.setattr(sampler_thread, "_SAMPLES_A_READING_LIVES", 0.0)

    class OutOfDescriptors(StillSampler):
        has_one = True

        def sample(self, now: float, residents: Any) -> Any:
            if not self.has_one:
                raise OSError(errno.EMFILE, "Too many open files", "/proc/stat")
            return super().sample(now, residents)

    sampler = OutOfDescriptors()
    async with serving(settings, Inbox(), sampler) as service:
        await until(lambda: of_now(service).readings, "a reading")
        sampler.has_one = False
        await until(lambda: not of_now(service).readings, "no reading")
        assert [device.id for device in of_now(service).devices] == ["cpu-0"]
        sampler.has_one = True
        await until(lambda: of_now(service).readings, "a reading again")


async def test_attempts_are_watched_on_after_a_look_that_failed(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_scandir, failures = os.scandir, itertools.count()

    def failing(path: Any) -> Any:
        if str(path) == str(settings.home.attempts) and next(failures) in (1, 2):
            raise OSError(errno.EMFILE, "Too many open files", str(path))
        return real_scandir(path)

    monkeypatch.setattr(os, "scandir", failing)
    inbox = Inbox()
    async with serving(settings, inbox):
        launch(settings, "true")
        await until(lambda: len(committed(inbox)) == 2, "an end")
    assert next(failures) > 2


async def test_the_first_report_has_devices(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "_REPORT_EVERY_S", 3600.0)
    inbox = Inbox()
    async with serving(settings, inbox):
        await until(inbox.reports, "a report")
    assert codec.decoded(inbox.reports()[0].body, HostReported).devices


async def test_events_wait_in_the_spool_while_redis_is_unreachable(settings: Settings) -> None:
    inbox = Inbox()
    inbox.down = True
    async with serving(settings, inbox):
        launch(settings, "true")
        await until(lambda: len(list(settings.home.spool.glob("*.json"))) == 2, "two spooled events")
        assert inbox.messages == []
        inbox.down = False
        await until(lambda: len(committed(inbox)) == 2, "two committed events")
        await until(lambda: not list(settings.home.spool.glob("*.json")), "an empty spool")


async def test_events_are_delivered_while_the_driver_hangs(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its devices have no reading then, so that no job is admitted; ends are reported without a new measurement."""
    monkeypatch.setattr(sampler_thread, "_FINISH_WITHIN_S", 0.2)
    release = threading.Event()

    class Hanging(StillSampler):
        def sample(self, now: float, residents: Any) -> Any:
            if residents:
                release.wait(60)
            return super().sample(now, residents)

    inbox = Inbox()
    async with serving(settings, inbox, Hanging()) as service:
        launch(settings, "sh", "-c", "sleep 0.3")
        await until(lambda: len(committed(inbox)) == 2, "a start and an end")
        await until(lambda: codec.decoded(service.report().body, HostReported).readings == (), "no reading")
        release.set()
    assert committed(inbox)[1].measurement.steps is None


async def test_a_dead_rq_worker_is_restarted(settings: Settings, tmp_path: Path) -> None:
    lives = tmp_path / "lives"
    orders = ChildSpec("orders", ["sh", "-c", f"echo x >> {lives}; exit 1"], tmp_path / "log")
    async with serving(settings, Inbox(), orders=orders):
        await until(lambda: lives.exists() and lives.read_text().count("x") >= 2, "a second life")


async def test_systemd_is_notified_of_readiness(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "20000")
        said = b""
        async with serving(settings, Inbox()):
            while b"READY=1" not in said or b"WATCHDOG=1" not in said:
                said += await asyncio.wait_for(asyncio.get_running_loop().sock_recv(systemd, 1000), 60)


async def test_a_clock_that_is_set_back_keeps_no_message_from_the_watchdog(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As seen after a step of an hour: systemd killed the worker service each minute of that hour."""
    monkeypatch.setattr(serve, "_PING_EVERY_S", 0.01)
    hours = itertools.count(1_800_000_000, -3600)
    monkeypatch.setattr(WatchDog, "_now", property(lambda _: datetime.fromtimestamp(next(hours), UTC)))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "20000")
        said = b""
        async with serving(settings, Inbox()):
            while said.count(b"WATCHDOG=1") < 3:
                said += await asyncio.wait_for(asyncio.get_running_loop().sock_recv(systemd, 1000), 60)


SERVICE = """
import asyncio, sys
from pathlib import Path
from tests.workers.twins import Inbox, StillSampler
from gpuq.home import Home
from gpuq.settings import Settings, Worker
from tests.support.memory_store import MemoryStore
from gpuq_workers.host_lease import HostLease
from gpuq_workers.serve import WorkerService, serve
worker = Worker(host='alpha', grace_s=0.3, sample_every_s=0.05)
settings = Settings(home=Home(Path(sys.argv[1])), redis_url=None, database_url='sqlite://', worker=worker)
sampler = StillSampler()
service = WorkerService(settings, sampler, Inbox(acknowledges=False), None)
asyncio.run(serve(service, HostLease(MemoryStore, 'alpha', 'home')))
"""


@contextmanager
def running(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Killed at the end of the block: Popen itself waits there, for ever where the story has failed before its end."""
    with subprocess.Popen(command) as service:
        try:
            yield service
        finally:
            service.kill()


def test_killing_the_service_at_any_time_loses_no_job_and_no_exit(settings: Settings) -> None:
    """kill -9 before the start is seen, while the job runs, and after its end; the next one tells it all, once."""
    spooled = settings.home.spool
    command = [sys.executable, "-c", SERVICE, str(settings.home.root)]
    go = settings.home.run / "go"
    launch(settings, "sh", "-c", f"while [ ! -e {go} ]; do sleep 0.02; done; exit 6")
    with running(command) as first:
        wait_for(lambda: len(list(spooled.glob("*.json"))) == 1, what="the start in the spool")
        first.kill()
    folder = AttemptFolder(settings.home.attempt(1, 1), attempt_id())
    assert shim_lives(folder)
    go.touch()
    wait_for(folder.ended, what="the end, with no service there")
    with running(command) as second:
        wait_for(lambda: len(list(spooled.glob("*.json"))) == 2, what="the end in the spool")
        second.terminate()
        assert second.wait(60) == 0
    with running(command) as third:
        third.terminate()
        third.wait(60)
    names = [path.read_text() for path in sorted(spooled.glob("*.json"))]
    assert ['"Started"' in names[0], '"Exited"' in names[1], '"exit_code":6' in names[1]] == [True] * 3


def test_a_second_service_on_one_home_ends_with_conflict(settings: Settings) -> None:
    with (settings.home.run / "worker.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        environment = {**os.environ, "GPUQ_HOME": str(settings.home.root)}
        asked = subprocess.run(
            [sys.executable, "-m", "gpuq_workers"], env=environment, capture_output=True, text=True, check=False
        )
    assert asked.returncode == 6
    assert "already runs" in asked.stderr
    assert "Traceback" not in asked.stderr
