"""The web application on a recorded week of 100,000 attempts on 64 devices of eight hosts: the server's time for each page."""

from __future__ import annotations

import asyncio
import gzip
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp
import msgspec
from sqlalchemy import insert, update

from benchmarks.table import Row
from gpuq.adapters.store import open_store
from gpuq.adapters.store.database import Database
from gpuq.adapters.store.migrate import upgrade
from gpuq.adapters.store.row_types import AttemptRow, MarkKind
from gpuq.adapters.store.rows import attempt_values, to_json
from gpuq.adapters.store.schema import attempts, device_marks, devices, job_lines, job_records, jobs, numbers
from gpuq.api.app import make_app
from gpuq.api.context import ApiContext
from gpuq.api.live import DispatcherLink
from gpuq.api.models import ShelfModels
from gpuq.api.page import handlers
from gpuq.api.server import note, serve
from gpuq.core.state.job import JobId
from gpuq.messages.job_record import JobRecord
from gpuq.messages.outcome import AttemptOutcome, PairSlowdown
from gpuq.messages.submission import Submission
from gpuq.settings import load

ATTEMPTS = 100_000
WEEK_S = 7 * 86_400.0
WAITING = 300
ROUNDS = 7
GIB = 2**30
PAGES = ("/", "/queue", "/queue?show=ended", "/queue?show=ended&name=bert", "/timeline?hours=24", "/timeline?hours=168",
         "/jobs/99000", "/week", "/pairs", "/model", "/administration")  # fmt: skip
_USERS = ("ada", "ben", "chi", "dov", "eva", "fay", "gus", "hal")
_KINDS = (
    "resnet50",
    "bert-large",
    "llama-lora",
    "whisper",
    "vit-l",
    "gnn",
    "diffusion",
    "lstm",
    "detr",
    "t5",
    "clip",
    "ppo",
)
TOKEN = "a-token-of-the-benchmark"
_BATCH = 5_000
_MADE_WITHIN_S = 8.0


def run() -> list[Row]:
    """Milliseconds of the server for each page, and the size of all scripts."""
    scripts = b"".join(path.read_bytes() for path in handlers.FILES.values() if path.suffix in (".js", ".mjs"))
    with tempfile.TemporaryDirectory(prefix="gpuq-week-") as folder:
        fill(Path(folder) / "gpuq.db", ATTEMPTS, time.time())
        taken = asyncio.run(_measure(Path(folder)))
    rows = [Row(f"page {path}", 1000 * median(seconds), "ms", 300.0) for path, seconds in taken.items()]
    return [
        *rows,
        Row(
            "scripts, compressed, of which nine tenths are the terminal's",
            len(gzip.compress(scripts)) / 1024,
            "KiB",
            150.0,
        ),
    ]


def fill(path: Path, count: int, now: float, *, hosts: int = 8, per_host: int = 8, seed: int = 7) -> None:
    """A record with so many attempts that ended within the last week, two at a time on each device, and 300 jobs that wait."""
    upgrade(f"sqlite:///{path}")
    database = Database(f"sqlite:///{path}")
    chance = random.Random(seed)
    names = [
        (f"node{host}", f"GPU-{host:02}-{index}", str(index)) for host in range(hosts) for index in range(per_host)
    ]
    with database.writing() as connection:
        found = [
            {"id": gpu, "host": host, "backend": "nvml", "type": "NVIDIA H100 80GB HBM3", "total_memory": 80 * GIB,
             "index": index, "sharing": "time-slicing"}
            for host, gpu, index in names
        ]  # fmt: skip
        connection.execute(insert(devices), found)
        connection.execute(insert(device_marks), list(_marks(now, [gpu for _, gpu, _ in names], chance)))
        connection.execute(update(numbers).values(last_job=count + WAITING))
    batch: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any] | None]] = []
    for row in _rows(count, now, names, chance):
        batch.append(row)
        if len(batch) == _BATCH:
            _write(database, batch)
            batch = []
    _write(database, batch)
    database.close()


def _marks(now: float, gpus: list[str], chance: random.Random) -> Iterator[dict[str, Any]]:
    """Of each device ten times of lowered clocks in the week, five pauses for measuring, and of one in ten an error."""
    for number, gpu in enumerate(gpus):
        kinds = [(MarkKind.LOWERED_CLOCKS, "power_cap")] * 10 + [(MarkKind.BLINK, str(number + 1))] * 5
        for kind, detail in kinds + [(MarkKind.XID, "13")] * (number % 10 == 0):
            start = now - chance.random() * WEEK_S
            length = chance.random() * 600 if kind is MarkKind.LOWERED_CLOCKS else 0.0
            yield {"device": gpu, "kind": kind.value, "detail": detail, "from_at": start,
                   "until_at": min(now, start + length), "count": 1}  # fmt: skip


def _rows(
    count: int, now: float, names: list[tuple[str, str, str]], chance: random.Random
) -> Iterator[tuple[dict[str, Any], dict[str, Any], dict[str, Any] | None]]:
    """Rows of the tables of jobs, records and attempts: two lanes on each device, each attempt behind the one before."""
    lanes = [(host, gpu, lane) for host, gpu, _ in names for lane in range(2)]
    mean = WEEK_S / (count / len(lanes))
    free = [now - WEEK_S + chance.random() * mean for _ in lanes]
    last: dict[int, tuple[int, float]] = {}
    for job in range(1, count + 1):
        place = min(range(len(lanes)), key=free.__getitem__)
        host, gpu, _ = lanes[place]
        start = free[place]
        end = min(start + chance.expovariate(1.1 / mean), now - 1)
        free[place] = end + chance.random() * 0.1 * mean
        beside, until = last.get(place ^ 1, (job, start))  # in the other lane of its device
        last[place] = job, end
        partners = (beside,) if until > start else ()
        yield _ended(job, (host, gpu), start, max(end, start + 0.1), partners, chance)
    for job in range(count + 1, count + WAITING + 1):
        yield (*_job(job, "PENDING", now - 60, 0, chance), None)


def _job(job: int, state: str, at: float, attempt: int, chance: random.Random) -> tuple[dict[str, Any], dict[str, Any]]:
    owner, kind = chance.choice(_USERS), chance.choice(_KINDS)
    project = chance.choice(("vision", "speech", "language"))
    asked = Submission(
        command=("python", f"/home/{owner}/{kind}/train.py", "--lr", f"{chance.random():.4f}"),
        cwd=f"/home/{owner}/{kind}",
        name=f"{kind}-{job}",
        project=project,
        time_limit_s=7200.0,
        env={f"VARIABLE_{number}": "x" * 40 for number in range(30)},
        max_slowdown=chance.choice((None, None, 1.1)),
    )
    of = JobRecord(submission=asked, owner=owner, uid=1000, kind=f"{owner}:{kind}/train.py", signature=kind,
                   features={"batch": 32}, submitted_at=at - 300)  # fmt: skip
    row = {"id": job, "owner": owner, "state": state, "state_since": at, "attempt": attempt, "alone": False,
           "cancel_requested": False, "project": project, "verdict": None, "name": asked.name}  # fmt: skip
    return row, {"job": job, "record": to_json(of)}


def _ended(
    job: int, at: tuple[str, str], start: float, end: float, partners: tuple[int, ...], chance: random.Random
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    code = 1 if chance.random() < 0.04 else 0
    row, record = _job(job, "FAILED" if code else "COMPLETED", end, 1, chance)
    slowdown, beside = 1.0 + chance.random() ** 3 * 0.6, f"{chance.choice(_USERS)}:{chance.choice(_KINDS)}/train.py"
    forecast = {"peak_utilization_pct": 60.0, "peak_memory_bytes": 20 * GIB, "upper_memory_bytes": 25 * GIB,
                "expected_slowdown": 1.05, "upper_slowdown": 1.2, "duration_p50_s": end - start,
                "duration_p90_s": 1.4 * (end - start), "evidence": "12 runs of this kind", "pairs": []}  # fmt: skip
    outcome = AttemptOutcome(
        peak_utilization_pct=100 * chance.random(), peak_memory_bytes=int(chance.random() * 24 * GIB),
        slowdown=slowdown, slowdown_low=slowdown - 0.02, slowdown_high=slowdown + 0.02, partners=partners,
        partner_kinds=(beside,), energy_joules=300.0 * (end - start), idle_joules=80.0 * (end - start),
        slowdowns=(PairSlowdown(kind=beside, value=slowdown, low=slowdown - 0.02, high=slowdown + 0.02),),
        device_type="NVIDIA H100 80GB HBM3",
    )  # fmt: skip
    attempt = AttemptRow(
        job=JobId(job), number=1, host=at[0], devices=(at[1],), launched_at=start - 0.2, started_at=start, ended_at=end,
        launch={"attempt": {"id": [job, 1], "promised": [25 * GIB], "shares": True, "forecast": forecast}, "verdict": None},
        features={"batch": 32}, model_version="m7", ending="exited", exit_code=code,
        log_path=f"/var/lib/gpuq/attempts/{job}-1/output.log", measurement={"steps": 1000}, actual=outcome,
    )  # fmt: skip
    return row, record, attempt_values(attempt)


def _write(database: Database, batch: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any] | None]]) -> None:
    with database.writing() as connection:
        for table, rows in zip((jobs, job_records, attempts), zip(*batch, strict=True), strict=True):
            if found := [row for row in rows if row is not None]:
                connection.execute(insert(table), found)
        records = {row["job"]: msgspec.json.decode(row["record"], type=JobRecord) for _, row, _ in batch}
        lines = [{"job": job, "line": to_json(record.listed)} for job, record in records.items()]
        connection.execute(insert(job_lines), lines)


def _no_kind(_: Submission, __: str) -> tuple[str, str, dict[str, Any]]:
    return "", "", {}


class _NoDispatcher:
    """A Redis without a dispatcher."""

    async def view(self) -> bytes | None:
        return None

    async def waiting(self) -> list[int]:
        return []

    async def add(self, message: object, /) -> None:
        """Nothing reads it."""


@asynccontextmanager
async def served(folder: Path, link: DispatcherLink | None = None) -> AsyncIterator[str]:
    """The API on the record in `folder`, with this link to a dispatcher, if any; its address."""
    settings = load({"GPUQ_HOME": str(folder / "h"), "GPUQ_DATABASE_URL": f"sqlite:///{folder}/gpuq.db"})
    settings.home.create()
    settings = replace(settings, api=replace(settings.api, port=0))
    store = open_store(settings.database_url)
    models = ShelfModels(store, settings.home.models, settings.learning, time.time)
    context = ApiContext(settings, store, link or _NoDispatcher(), _no_kind, TOKEN, models)
    stop = asyncio.Event()
    serving = asyncio.create_task(serve(make_app(context), settings.home, settings.api, stop, lambda _: None))
    while not note(settings.home).exists():
        await asyncio.sleep(0.01)
    port = msgspec.json.decode(note(settings.home).read_bytes())["port"]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        stop.set()
        await serving
        store.close()


async def _measure(folder: Path) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    async with (
        served(folder) as address,
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"}) as session,
    ):
        for path in PAGES:
            found[path] = []
            for number in range(ROUNDS):
                if number == 1:  # figures of the whole record are made beside the first answer
                    await asyncio.sleep(_MADE_WITHIN_S)
                began = time.perf_counter()
                async with session.get(f"{address}{path}") as answer:
                    text = await answer.text()
                    assert answer.status in (200, 503), text
                found[path].append(time.perf_counter() - began if answer.status == 200 else float("inf"))
            print(f"{path}: first {1000 * found[path][0]:.0f} ms, {len(text) / 1024:.0f} KiB", file=sys.stderr)
    return found


if __name__ == "__main__":
    from benchmarks.table import lines

    print("\n".join(lines(run())))
