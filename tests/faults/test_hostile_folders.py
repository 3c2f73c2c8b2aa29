"""A job puts pipes, links, huge files and nonsense in place of the files of its folder; the worker service goes on."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from gpuq_workers.attempts import AttemptFolder

from gpuq.adapters import process
from gpuq.home import Home
from tests.support.hostile import FILES, SHAPES, put
from tests.support.patience import waited_s
from tests.support.site import Site, wait_for
from tests.workers.conftest import SHIM, Attempt
from tests.workers.twins import attempt_id

# The real service with the real sampler. Its inbox writes down what comes and acknowledges it. A file that cannot be read is
# waited for for a second, not a minute.
SERVICE = """
import asyncio, json, sys, time
from pathlib import Path
from tests.support.memory_store import MemoryStore
from gpuq.home import Home, key_of_this_host
from gpuq.messages import wire
from gpuq.settings import Devices, Settings, Worker
from gpuq_workers import residents
from gpuq_workers.backend import open_backend
from gpuq_workers.host_lease import HostLease, instance_of
from gpuq_workers.measuring.sample import Sampler
from gpuq_workers.serve import WorkerService, serve
from tests.support.patience import waited_s

residents._UNREADABLE_FOR_S = 1.0

class Inbox:
    seen, number = 0, None
    async def add(self, message):
        if isinstance(message, wire.HostReport):
            self.number = message.number
            now = time.time()
            ages = [now - reading["at"] for _, reading in message.body["readings"]]
            self.note(at=now, age=max(ages, default=None), waited=waited_s())
        elif message.seq == self.seen + 1:
            self.seen = message.seq
            self.note(event=message.name, **message.body)
    async def acknowledged(self, host):
        if self.number is None:
            return None
        answer = wire.Acknowledgement(host, self.seen, self.number.worker, self.number.number, "the dispatcher")
        return wire.encode(wire.seal(answer, key_of_this_host(home, host)))
    def note(self, **values):
        print(json.dumps(values), flush=True)

worker = Worker(host="alpha", grace_s=0.3, sample_every_s=0.5)
devices = Devices(backend="cpu", cpu_count=2, cpu_cores=1)
home, store = Home(Path(sys.argv[1])), MemoryStore()
settings = Settings(home=home, redis_url=None, database_url="sqlite://", worker=worker, devices=devices)
lease = HostLease(lambda: store, "alpha", instance_of(home))
asyncio.run(serve(WorkerService(settings, Sampler(open_backend(settings)), Inbox(), None), lease))
"""


def test_a_job_that_makes_pipes_of_its_control_files_completes_with_its_umask(site: Site) -> None:
    """As reported: `mkfifo exit.json` blocked the worker service of the host until its watchdog killed it, again and again."""
    spoil = 'cd "$(dirname "$GPUQ_PROGRESS")" && rm -f exit.json.new blink.json && mkfifo exit.json exit.json.new blink.json'
    job = site.submit("/bin/sh", "-c", f"{spoil} && sleep 1 && umask", umask=0o027)
    done = site.wait(job)
    assert (done["state"], done["exit_code"], done["umask"]) == ("COMPLETED", 0, 0o027)
    assert site.get(f"/api/v1/jobs/{job}/logs")[1] == b"0027\n"


class Watched:
    """The service, and what it has reported so far."""

    def __init__(self, home: Home) -> None:
        self.home, self._output = home, home.root / "reported"
        with self._output.open("wb") as output:
            self.process = subprocess.Popen([sys.executable, "-c", SERVICE, str(home.root)], stdout=output)

    def notes(self) -> list[dict[str, Any]]:
        lines = self._output.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def endings(self) -> dict[int, str]:
        """Job -> how its attempt ended."""
        return {note["attempt"][0]: note["ending"] for note in self.notes() if note.get("event") == "Exited"}

    def memory_kib(self, name: str) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split(f"{name}:")[1].split()[0])


@pytest.fixture
def home() -> Iterator[Home]:
    # In memory where there is room for it: each event is synced to the disk several times.
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as root:
        made = Home(Path(root))
        made.create()
        yield made


@contextmanager
def watching(home: Home) -> Iterator[Watched]:
    """The service for the block. At its end: readings were never older than 3 s, and memory has not grown.

    Seconds count in which no process of this machine waited for a processor.
    """
    watched = Watched(home)
    try:
        wait_for(lambda: any("age" in note for note in watched.notes()), story=lambda: "no report")
        before_kib = watched.memory_kib("VmRSS")
        yield watched
        reports = [note for note in watched.notes() if "age" in note]
        moments = [(report["at"], report["waited"]) for report in reports] + [(time.time(), waited_s())]
        gaps = [later - at - (then - waited) for (at, waited), (later, then) in pairwise(moments)]
        assert max(gaps) < 3, "reports"
        assert max(_ages(reports, moments)) < 3, "readings"
        assert watched.memory_kib("VmHWM") - before_kib < 48 * 1024
    finally:
        watched.process.kill()
        watched.process.wait()


def _ages(reports: list[dict[str, Any]], moments: list[tuple[float, float]]) -> Iterator[float]:
    """How old the oldest reading was at each report; at one without readings, those of the report before."""
    read_at = reports[0]["at"]
    for report in reports:
        if report["age"] is not None:
            read_at = report["at"] - report["age"]
        waited = max((waited for at, waited in moments if at <= read_at), default=moments[0][1])
        yield report["at"] - read_at - (report["waited"] - waited)


def test_each_file_in_each_shape_ends_its_attempt_and_delays_no_reading(home: Home) -> None:
    """The shims of these attempts are gone, so the service has to end each of them by what it can read.

    Twenty folders hold every file, each in another shape, so that all pairs are there; in forty more only a file that says
    whether the attempt runs is spoiled.
    """
    dead = [process.boot_id(), 2**22 + 1, 1]
    started = {
        "pid": dead[1],
        "shim_pid": dead[1],
        "start_ticks": 1,
        "shim_start_ticks": 1,
        "boot_id": dead[0],
        "at": 5.0,
    }
    shapes = list(SHAPES)
    cases = [
        {file: shapes[(first + place) % len(shapes)] for place, file in enumerate(FILES)}
        for first in range(len(shapes))
    ]
    cases += [{"exit.json": shape} for shape in shapes]
    cases += [{("order.json", "started.json")[place % 2]: shape} for place, shape in enumerate(shapes)]
    with watching(home) as watched:
        for job, spoiled in enumerate(cases, start=1):
            made = Attempt(home.root / f"{job}-1")
            made.folder.mkdir()
            made.order("true", job=job, shim=dead)
            (made.folder / "started.json").write_text(json.dumps(started))
            for file, shape in spoiled.items():
                put(shape, made.folder / file)
            made.folder.rename(home.attempt(job, 1))
        wait_for(lambda: len(watched.endings()) == len(cases), story=lambda: str(watched.endings()))
        assert set(watched.endings().values()) == {"lost"}
        assert not list(home.attempts.glob("*/*.followed")), "a link was followed"


def test_a_job_that_replaces_all_files_of_its_folder_is_stopped_as_any_other(home: Home) -> None:
    """Its shim still has what it needs: the end is the shim's, not `lost`."""
    jobs = dict(enumerate(SHAPES, start=1))
    attempts: list[Attempt] = []
    with watching(home) as watched:
        try:
            for job in jobs:
                made = Attempt(home.attempt(job, 1))
                made.folder.mkdir()
                command = [sys.executable, "-I", "-S", str(SHIM)]
                made.shim = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
                attempts.append(made)
                shim = process.identify(made.shim.pid)
                assert shim is not None
                made.order("sleep", "60", job=job, shim=list(shim), blink=True)
                assert made.shim.stdin is not None
                made.shim.stdin.write(f"{made.folder}\n".encode())
                made.shim.stdin.close()
            wait_for(lambda: sum(note.get("event") == "Started" for note in watched.notes()) == len(jobs))
            for made, shape in zip(attempts, SHAPES, strict=True):
                for file in FILES:
                    if file != "stop.json":
                        put(shape, made.folder / file)
            for made, shape in zip(attempts, SHAPES, strict=True):
                put(shape, made.folder / "stop.json")
                AttemptFolder(made.folder, attempt_id()).write_stop("stopped by order", 1.0)
            wait_for(lambda: len(watched.endings()) == len(jobs), story=lambda: str(watched.endings()))
            assert set(watched.endings().values()) == {"stopped"}
            assert not list(home.attempts.glob("*/*.followed")), "a link was followed"
        finally:
            for made in attempts:
                assert made.shim is not None
                known = process.identify(made.shim.pid)
                if known is not None:
                    process.kill_tree(known)
                made.shim.wait()
