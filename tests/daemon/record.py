"""A record with finished attempts in it, for the trainer to read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from gpuq.adapters.store import open_store
from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.row_types import AttemptRow, Commit, JobRow
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.device import Device, DeviceId, HostId
from gpuq.home import Home
from gpuq.settings import Learning, Settings
from tests.learn.world import GIB
from tests.support.memory_store import MemoryStore
from tests.support.sqlite_record import make_record

GPU = Device(id=DeviceId("h/0"), host=HostId("h"), backend="nvml", type="GPU", total_memory=80 * GIB)


def settings_in(folder: Path, **learning: float) -> Settings:
    """Settings of a home of its own, with a SQLite record that is set up."""
    home = Home(folder / "home")
    home.create()
    return Settings(
        home=home, redis_url=None, database_url=make_record(home.database), learning=Learning(**learning)  # type: ignore[arg-type]
    )  # fmt: skip


def record_of(rows: Sequence[tuple[JobRow, AttemptRow]]) -> Store:
    """A record in memory, with one device and these attempts."""
    return _filled(MemoryStore(), rows)


def record_in(settings: Settings, rows: Sequence[tuple[JobRow, AttemptRow]] = ()) -> Store:
    """The record of these settings, with one device and these attempts, for the trainer in a process of its own."""
    return _filled(open_store(settings.database_url), rows)


def _filled(store: Store, rows: Sequence[tuple[JobRow, AttemptRow]]) -> Store:
    store.commit(Commit(devices=[GPU]))
    fill(store, rows)
    return store


def fill(store: Store, rows: Sequence[tuple[JobRow, AttemptRow]]) -> None:
    """Put the attempts in, in this order; jobs get the numbers that the record gives."""
    if not rows:
        return
    ids = store.add_jobs([job.record for job, _ in rows])
    launched, started, ended = [], [], []
    for (_, attempt), job_id in zip(rows, ids, strict=True):
        one = AttemptId(job_id, attempt.number)
        blank = {"started_at": None, "ended_at": None, "ending": None, "exit_code": None, "actual": None}
        launched.append(msgspec.structs.replace(attempt, job=job_id, **blank))
        started.append((one, attempt.started_at or 0.0, "log"))
        end = {name: getattr(attempt, name) for name in ("ended_at", "ending", "exit_code", "measurement", "actual")}
        ended.append((one, {**end, "reason": ""}))
    store.commit(Commit(launched=launched))
    store.commit(Commit(started=started, ended=ended))
