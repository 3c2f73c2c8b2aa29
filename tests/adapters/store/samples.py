"""Rows with sane defaults, so that a test names only what it is about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.row_types import AttemptRow, Commit, Entry, JobChange
from gpuq.core.state.actions import Launch
from gpuq.core.state.attempt import Attempt, AttemptId
from gpuq.core.state.device import DeviceId, HostId
from gpuq.core.state.job import JobId, JobState, KindId
from gpuq.core.state.verdict import Rule, Verdict
from gpuq.messages.codec import plain
from gpuq.messages.job_record import JobRecord, to_core
from gpuq.messages.submission import Submission

ADMITTED = Verdict(True, Rule.FITS, DeviceId("gpu0"), (("free_bytes", 123),))
_NUMBERS = [["free_bytes", 1], ["ratio", 0.5], ["load_pct", None]]
WAITS = {"admitted": False, "rule": Rule.RESOURCES.value, "device": None, "numbers": _NUMBERS}


def a_record(key: str | None = None, owner: str = "ada", **submitted: Any) -> JobRecord:
    return JobRecord(
        submission=Submission(command=("python", "train.py"), cwd="/home/ada", env={"LANG": "é"}, **submitted),
        owner=owner,
        uid=1000,
        kind="train.py",
        signature="train.py batch=32",
        features={"batch": 32, "model": None},
        submitted_at=100.5,
        idempotency_key=key,
    )


def a_change(job: int, state: JobState = JobState.PENDING, attempt: int = 0, **changes: Any) -> JobChange:
    verdict, reason = changes.pop("verdict", None), changes.pop("reason", None)
    values = {"state": state, "attempt": attempt, "since": changes.pop("state_since", 200.0), **changes}
    return JobChange(replace(to_core(JobId(job), a_record()), **values), verdict, reason)


def an_attempt(
    job: int, number: int = 1, host: str = "host", devices: tuple[str, str] = ("gpu0", "gpu1")
) -> AttemptRow:
    attempt = Attempt(
        id=AttemptId(JobId(job), number),
        kind=KindId("train.py"),
        host=HostId(host),
        devices=tuple(map(DeviceId, devices)),
        promised=(2**34, 2**33),
        shares=True,
        launched_at=210.0,
    )
    return AttemptRow(
        job=JobId(job),
        number=number,
        host=host,
        devices=attempt.devices,
        launched_at=210.0,
        launch=plain(Launch(attempt, ADMITTED)),
        features={"batch": 32},
        model_version="2026-11-20",
    )


def an_entry(seq: int, *jobs: int, name: str = "Woke", body: Any = None) -> Entry:
    return Entry(seq=seq, at=float(seq), name=name, body={} if body is None else body, jobs=jobs)


def an_end(at: float = 300.0, **changes: Any) -> dict[str, Any]:
    return {
        "ended_at": at,
        "ending": "exited",
        "exit_code": 0,
        "reason": "",
        "measurement": {"peak_memory_bytes": 5, "peak_utilization_pct": None},
        "actual": {"slowdown": None},
        **changes,
    }


def launched(store: Store, host: str = "host", **submitted: Any) -> AttemptId:
    """A new job with its first attempt ordered, as the dispatcher commits it."""
    (job,) = store.add_jobs([a_record(**submitted)])
    store.commit(Commit(jobs=[a_change(job, JobState.STARTING, 1)], launched=[an_attempt(job, host=host)]))
    return AttemptId(job, 1)
