"""`gpuq top` at 1 Hz with 1,000 devices, in a real terminal of 80 columns: the processor time of its process."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import random
import signal
import struct
import tempfile
import termios
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import insert

from benchmarks import pages
from benchmarks.site import BIN
from benchmarks.table import Row
from gpuq.adapters.store.database import Database
from gpuq.adapters.store.migrate import upgrade
from gpuq.adapters.store.row_types import AttemptRow
from gpuq.adapters.store.rows import attempt_values
from gpuq.adapters.store.schema import devices
from gpuq.core.state.job import JobId
from gpuq.messages.live import DeviceStatus, LiveView, ResidentStatus, encode

HOSTS, PER_HOST, WAITING = 125, 8, 300
TEN = 10
_AT, _VIEWS, _NEW_EVERY_S = 12345.678, 5, 0.5
_WARM_S, _MEASURED_S, _PAUSE_S = 8.0, 30.0, 0.25
_TOTAL = 80 * pages.GIB
_FORECAST = {"peak_utilization_pct": 45.0, "peak_memory_bytes": 20 * pages.GIB, "upper_memory_bytes": 25 * pages.GIB,
             "expected_slowdown": 1.05, "upper_slowdown": 1.2, "duration_p50_s": 3600.0, "duration_p90_s": 7200.0,
             "evidence": "12 runs of this kind", "pairs": []}  # fmt: skip


def run() -> list[Row]:
    """Percent of a core, of the command and of the API that it asks; of the API also for ten of them."""
    with tempfile.TemporaryDirectory(prefix="gpuq-top-") as folder:
        names = _fill(Path(folder) / "gpuq.db")
        # A machine with other things to do gives the API less time than a look a second takes.
        ours, api, looks = asyncio.run(_measure(Path(folder), names, 1))
        _, of_ten, looks_of_ten = asyncio.run(_measure(Path(folder), names, TEN))
    return [
        Row("`gpuq top` at 1 Hz with 1,000 devices", 100 * ours / min(1.0, looks), "% of a core", 5.0),
        Row("  the API for it", 100 * api / min(1.0, looks), "% of a core", 10.0),
        Row("  the API for ten of them", 100 * of_ten / min(1.0, looks_of_ten), "% of a core"),
        Row("  looks that there were", looks, "1/s", note="the figures above are for one each second"),
    ]


def _fill(path: Path) -> list[tuple[str, str, str]]:
    """A record of 1,000 devices with two jobs each, and of jobs that wait."""
    upgrade(f"sqlite:///{path}")
    database, chance, now = Database(f"sqlite:///{path}"), random.Random(7), time.time()
    names = [(f"node{host}", f"GPU-{host:03}-{gpu}", str(gpu)) for host in range(HOSTS) for gpu in range(PER_HOST)]
    with database.writing() as connection:
        connection.execute(insert(devices), [
            {"id": gpu, "host": host, "backend": "nvml", "type": "NVIDIA H100 80GB HBM3", "total_memory": _TOTAL,
             "index": index, "sharing": "time-slicing"} for host, gpu, index in names])  # fmt: skip
    batch: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any] | None]] = []
    for number, (host, gpu, _) in enumerate(names):
        for job in (2 * number + 1, 2 * number + 2):
            attempt = AttemptRow(
                job=JobId(job), number=1, host=host, devices=(gpu,), launched_at=now - 600, started_at=now - 599,
                launch={"attempt": {"id": [job, 1], "promised": [25 * pages.GIB], "shares": True, "forecast": _FORECAST},
                        "verdict": None}, features={}, model_version="m7",
            )  # fmt: skip
            batch.append((*pages._job(job, "RUNNING", now - 600, 1, chance), attempt_values(attempt)))
    first = 2 * len(names) + 1
    batch += [(*pages._job(job, "PENDING", now - 60, 0, chance), None) for job in range(first, first + WAITING)]
    pages._write(database, batch)
    database.close()
    return names


class _Dispatcher(pages._NoDispatcher):
    """A view that is new each time, as a dispatcher writes it. Several are made beforehand: that is no work of the API."""

    def __init__(self, names: list[tuple[str, str, str]]) -> None:
        self._names, self._chance = names, random.Random(8)
        devices = [tuple(map(self._device, range(len(names)))) for _ in range(_VIEWS)]
        self._views = [encode(LiveView(at=_AT, devices=each)) for each in devices]

    async def view(self) -> bytes | None:
        at = time.time() // _NEW_EVERY_S * _NEW_EVERY_S
        return self._views[int(at / _NEW_EVERY_S) % _VIEWS].replace(str(_AT).encode(), str(at).encode(), 1)

    def _device(self, number: int) -> DeviceStatus:
        host, gpu, index = self._names[number]
        jobs = (2 * number + 1, 2 * number + 2)
        residents = tuple(
            ResidentStatus(job=job, attempt=1, started_at=time.time() - 600, partners=(jobs[1 - place],),
                           memory_bytes=18 * pages.GIB, utilization_pct=40.0, steps=1000, rate=12.0, slowdown=1.04)
            for place, job in enumerate(jobs)
        )  # fmt: skip
        return DeviceStatus(
            id=gpu, host=host, backend="nvml", type="NVIDIA H100 80GB HBM3", total_memory_bytes=_TOTAL, index=index,
            sharing="time-slicing", used_memory_bytes=37 * pages.GIB, promised_memory_bytes=50 * pages.GIB,
            utilization_pct=80 + 10 * self._chance.random(), read_at=time.time(), residents=residents,
        )  # fmt: skip


async def _measure(folder: Path, names: list[tuple[str, str, str]], count: int) -> tuple[float, float, float]:
    """(processor time of one command, of the API for `count` of them, looks of each), per second."""
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(pages.served(folder, _Dispatcher(names)))
        terminals = [await stack.enter_async_context(_on_a_terminal(address)) for _ in range(count)]
        await asyncio.sleep(_WARM_S + count)
        pid, changes = terminals[0]
        began, ours, api, before = time.monotonic(), _cpu_s(pid), time.process_time(), len(changes)
        await asyncio.sleep(_MEASURED_S)
        wall = time.monotonic() - began
        return (_cpu_s(pid) - ours) / wall, (time.process_time() - api) / wall, (len(changes) - before) / wall


@asynccontextmanager
async def _on_a_terminal(address: str) -> AsyncIterator[tuple[int, list[float]]]:
    """The process of `gpuq top`, and when the screen changed: moments with a quarter of a second between them."""
    pid, screen = pty.fork()
    if pid == 0:
        os.environ.update(GPUQ_TOKEN=pages.TOKEN, TERM="xterm-256color")
        os.execv(str(BIN / "gpuq"), ["gpuq", "--host", address, "top"])
    fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
    shown, changes = bytearray(), [0.0]

    def read() -> None:
        shown.extend(os.read(screen, 65536))
        if time.monotonic() - changes[-1] > _PAUSE_S:
            changes.append(time.monotonic())

    loop = asyncio.get_running_loop()
    loop.add_reader(screen, read)
    try:
        yield pid, changes
        assert b"1,000 devices" in shown, bytes(shown[-2000:])
    finally:
        loop.remove_reader(screen)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(screen)


def _cpu_s(pid: int) -> float:
    """Processor seconds of the process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    from benchmarks.table import lines

    print("\n".join(lines(run())))
