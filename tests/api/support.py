"""A small record, a small stream and a realistic afternoon of jobs, all in memory."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from gpuq.adapters.store.contract import AttemptRow, Chance, Commit, Entry, JobRow, Request, Selection
from gpuq.api.models import ExplainedForecast
from gpuq.codec import noun
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.device import Device
from gpuq.core.state.forecast import Forecast
from gpuq.core.state.job import JobId, JobState
from gpuq.errors import Unreachable
from gpuq.messages.outcome import AttemptOutcome
from gpuq.submission import JobRecord, Submission, to_core

GIB = 2**30


class MemoryStore:
    """The record's calls that the API makes. `refuse` makes every one of them fail."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.rows: dict[int, JobRow] = {}
        self.tries: dict[int, list[AttemptRow]] = {}
        self.known: list[Device] = []
        self.entries: list[Entry] = []
        self.asked: list[Request] = []
        self.seen: list[Chance] = []
        self.keys: dict[tuple[str, str], JobId] = {}
        self.batches: list[int] = []
        self.refuse: Exception | None = None
        self.bad: Callable[[JobRecord], bool] = lambda record: False
        self.before_commit: Callable[[], None] = lambda: None

    def add_jobs(self, records: Sequence[JobRecord]) -> list[JobId]:
        self.before_commit()
        self._check()
        if any(self.bad(record) for record in records):
            raise RuntimeError("secret detail of the driver")
        with self.lock:
            self.batches.append(len(records))
            return [self._add(record) for record in records]

    def _add(self, record: JobRecord) -> JobId:
        key = (record.owner, record.idempotency_key or "")
        if record.idempotency_key is not None and key in self.keys:
            return self.keys[key]
        job = JobId(len(self.rows) + 1)
        state = to_core(JobId(0), record).state
        self.rows[job] = row(job, record, state)
        self.keys[key] = job
        return job

    def add_request(self, verb: str, job: JobId | None, by: str, at: float, body: Mapping[str, Any]) -> int:
        self._check()
        self.asked.append(Request(id=len(self.asked) + 1, verb=verb, job=job, by=by, at=at, body=dict(body)))
        return len(self.asked)

    def add_requests(self, verb: str, jobs: Sequence[JobId], by: str, at: float) -> None:
        for job in jobs:
            self.add_request(verb, job, by, at, {})

    def select(self, selection: Selection) -> dict[JobId, JobState]:
        self._check()
        wanted = selection
        patterns = (wanted.name, wanted.kind, wanted.project)
        return {
            one.id: one.state
            for one in sorted(self.rows.values(), key=lambda row: row.id)
            if (wanted.ids is None or any(first <= one.id <= last for first, last in wanted.ids))
            and (wanted.states is None or one.state in wanted.states)
            and (wanted.owner is None or one.record.owner == wanted.owner)
            and all(
                pattern is None or fnmatchcase(text or "", pattern)
                for pattern, text in zip(
                    patterns,
                    (one.record.submission.name, one.record.kind, one.record.submission.project),
                    strict=True,
                )
            )
        }

    def job(self, job: JobId) -> JobRow | None:
        self._check()
        return self.rows.get(job)

    def jobs(
        self,
        *,
        ids: Sequence[JobId] | None = None,
        states: Sequence[JobState] | None = None,
        owner: str | None = None,
        after: JobId | None = None,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> list[JobRow]:
        self._check()
        found = [
            one
            for one in self.rows.values()
            if (ids is None or one.id in ids)
            and (states is None or one.state in states)
            and (owner is None or one.record.owner == owner)
            and (after is None or (one.id < after if newest_first else one.id > after))
        ]
        return sorted(found, key=lambda one: one.id, reverse=newest_first)[:limit]

    def count_by_state(self) -> dict[JobState, int]:
        self._check()
        counts: dict[JobState, int] = {}
        for one in self.rows.values():
            counts[one.state] = counts.get(one.state, 0) + 1
        return counts

    def attempts(self, job: JobId) -> list[AttemptRow]:
        self._check()
        return list(self.tries.get(job, ()))

    def live_attempts(self) -> list[AttemptRow]:
        return [one for rows in self.tries.values() for one in rows if one.ended_at is None]

    def devices(self) -> list[Device]:
        self._check()
        return list(self.known)

    def journal(self, *, after: int, limit: int, job: JobId | None = None, only_jobs: bool = False) -> list[Entry]:
        self._check()
        found = [one for one in self.entries if one.seq > after and (one.jobs or not only_jobs)]
        return [one for one in found if job is None or job in one.jobs][:limit]

    def last_seq(self) -> int:
        self._check()
        return self.entries[-1].seq if self.entries else 0

    def requests(self, limit: int) -> list[Request]:
        return self.asked[:limit]

    def hosts(self) -> dict[str, tuple[str, int]]:
        return {}

    def commit(self, commit: Commit) -> None:
        raise NotImplementedError

    def prune_journal(self, before: int) -> int:
        raise NotImplementedError

    def finished_attempts(self, *, since: float = 0.0, limit: int | None = None) -> list[tuple[JobRow, AttemptRow]]:
        self._check()
        tries = [(self.rows[job], one) for job, found in self.tries.items() for one in found]
        return [(row, one) for row, one in tries if one.started_at is not None and (one.ended_at or -1) >= since]

    def chances(self, *, since: float = 0.0) -> list[Chance]:
        self._check()
        return [one for one in self.seen if one.at >= since]

    def claim(self, attempt: AttemptId, host: str, boot_id: str, at: float) -> None:
        raise NotImplementedError

    def close(self) -> None: ...

    def _check(self) -> None:
        if self.refuse is not None:
            raise self.refuse

    # What tests do to it.
    def tell(self, name: str, body: Any, *jobs: int) -> None:
        self.entries.append(Entry(seq=self.last_seq() + 1, at=time.time(), name=name, body=body, jobs=jobs))

    def set_state(self, job: int, state: JobState, **fields: Any) -> None:
        self.rows[job] = msgspec.structs.replace(self.rows[job], state=state, **fields)


class MemoryStream:
    """Redis as the API sees it; `down` makes it unreachable, `hang` makes it silent."""

    def __init__(self) -> None:
        self.down = False
        self.hang = False
        self.picture: bytes | None = None
        self.order: list[int] = []
        self.messages: list[Any] = []

    async def view(self) -> bytes | None:
        await self._reach()
        return self.picture

    async def waiting(self) -> list[int]:
        await self._reach()
        return list(self.order)

    async def add(self, message: Any) -> None:
        await self._reach()
        self.messages.append(message)

    async def _reach(self) -> None:
        if self.hang:
            await asyncio.sleep(3600)
        if self.down:
            raise Unreachable("Redis does not answer.")


class SmallModels:
    """A shelf with one forecast."""

    def status(self) -> dict[str, Any]:
        return {"serving": "m-7", "versions": ["m-6", "m-7"]}

    def forecast(self, record: JobRecord) -> dict[str, Any]:
        return forecast(61.0, 9.8)

    def forecasts(self, records: Iterable[JobRecord]) -> dict[str, dict[str, Any]]:
        return {record.signature: self.forecast(record) for record in records}

    def explained_forecasts(
        self, record: JobRecord, questions: Sequence[tuple[Device, tuple[str, ...]]]
    ) -> list[ExplainedForecast]:
        found = []
        for device, beside in questions:
            costs = [
                {"beside": kind, "newcomer": 1.04, "newcomer_upper": 1.1, "resident": 1.3, "resident_upper": 1.4}
                for kind in beside
            ]
            believed = noun({**forecast(61.0, 9.8), "pairs": costs}, Forecast)
            judged = {"memory_under_share": 0.03, "scored": 240}
            found.append(ExplainedForecast(device.type, believed, 12, (("ada:other.py", 0.7),), 0.95, judged))
        return found


def describe(submission: Submission, owner: str) -> tuple[str, str, dict[str, Any]]:
    kind = submission.kind or f"{owner}:{submission.script or submission.command[0]}"
    return kind, f"{kind}|", {"arguments": len(submission.command)}


def submission(**fields: Any) -> dict[str, Any]:
    return {"command": ["python", "train.py"], "cwd": "/home/ada", **fields}


def record(at: float, **fields: Any) -> JobRecord:
    asked = msgspec.convert(submission(**fields), Submission)
    return JobRecord(
        submission=asked,
        owner=fields.get("project") or "ada",
        uid=os.getuid(),
        kind=asked.kind or "ada:train.py",
        signature="s",
        features={},
        submitted_at=at,
    )


def row(job: int, of: JobRecord, state: JobState, **fields: Any) -> JobRow:
    known: dict[str, Any] = {
        "state_since": of.submitted_at,
        "attempt": 0,
        "alone": False,
        "cancel_requested": False,
        "verdict": None,
        "reason": None,
    }
    return JobRow(id=JobId(job), record=of, state=state, **{**known, **fields})


def forecast(load: float, gib: float, slowdown: float | None = None) -> dict[str, Any]:
    return {
        "peak_utilization_pct": load,
        "peak_memory_bytes": int(gib * GIB),
        "upper_memory_bytes": int(gib * GIB * 1.15),
        "expected_slowdown": slowdown,
        "upper_slowdown": None if slowdown is None else slowdown + 0.05,
        "duration_p50_s": 2880.0,
        "duration_p90_s": 3500.0,
        "evidence": "12 runs of this kind",
        "model_version": "m-7",
        "pairs": [],
    }


def attempt(job: int, device: str, at: float, believed: dict[str, Any], **fields: Any) -> AttemptRow:
    known: dict[str, Any] = {
        "number": 1,
        "host": "rack-3",
        "devices": (device,),
        "launched_at": at,
        "launch": {
            "attempt": {
                "id": [job, 1],
                "kind": f"ada:job{job}.py",
                "host": "rack-3",
                "launched_at": at,
                "devices": [device],
                "promised": [believed["upper_memory_bytes"]],
                "shares": True,
                "forecast": believed,
            },
            "verdict": {"admitted": True, "rule": "Fits", "device": device, "numbers": [["load_sum_pct", 88.0]]},
            "cause": 1,
        },
        "features": {},
        "model_version": "m-7",
        "claimed_at": at,
        "started_at": at + 0.4,
        "log_path": f"/var/lib/gpuq/attempts/{job}-1/output.log",
    }
    return AttemptRow(job=JobId(job), **{**known, **fields})


def live_resident(job: int, gib: float, load: float, rate: float | None, *partners: int) -> dict[str, Any]:
    return {
        "job": job,
        "attempt": 1,
        "memory_bytes": int(gib * GIB),
        "utilization_pct": load,
        "steps": 4210,
        "rate": rate,
        "started_at": time.time() - 900,
        "partners": list(partners),
    }


def live_device(name: str, total: int, load: float | None, *residents: dict[str, Any], **fields: Any) -> dict[str, Any]:
    used = sum(one["memory_bytes"] for one in residents)
    return {
        "id": name,
        "index": name[-1],
        "host": "rack-3",
        "backend": "nvml",
        "type": "NVIDIA H200",
        "total_memory_bytes": total * GIB,
        "used_memory_bytes": used + 400 * 2**20,
        "promised_memory_bytes": int(used * 1.3),
        "foreign_memory_bytes": 0,
        "utilization_pct": load,
        "read_at": time.time(),
        "residents": list(residents),
        **fields,
    }


def picture(at: float, *devices: dict[str, Any]) -> bytes:
    dispatcher = {"pid": 4242, "passes": 918, "pass_seconds": 0.0021, "model_version": "m-7"}
    return msgspec.json.encode({"at": at, "dispatcher": dispatcher, "devices": list(devices)})


def afternoon(store: MemoryStore, stream: MemoryStream) -> None:
    """Four devices, shared and not; a queue with reasons; jobs that ended in different ways."""
    now = time.time()
    gpus = [f"GPU-8f2c41d0-1b7e-4c55-9a01-0000000000{n}" for n in range(4)]
    store.known = [Device(gpu, "rack-3", "nvml", "NVIDIA H200", 141 * GIB, index=gpu[-1]) for gpu in gpus]  # type: ignore[arg-type]
    running = [
        (42, "resnet50-imagenet", gpus[0], forecast(61, 28.5, 1.04)),
        (43, "bert-finetune", gpus[0], forecast(33, 22.0, 1.06)),
        (44, "llama-8b-lora", gpus[1], forecast(96, 118.0)),
        (47, "gan-celeba", gpus[2], forecast(38, 12.5, 1.02)),
        (48, "lstm-weather <b>", gpus[2], forecast(24, 6.2, 1.03)),
    ]
    for job, name, gpu, believed in running:
        store.rows[job] = row(job, record(now - 1200, name=name), JobState.RUNNING, attempt=1)
        store.tries[job] = [attempt(job, gpu, now - 900, believed)]
    _add_waiting(store, now)
    _add_ended(store, now, gpus)
    stream.order = [51, 49, 50, 53]
    stream.picture = picture(
        now,
        live_device(gpus[0], 141, 84.0, live_resident(42, 27.1, 56, 11.8, 43), live_resident(43, 19.4, 28, 4.2, 42)),
        live_device(gpus[1], 141, 97.0, live_resident(44, 112.0, 97, 0.8)),
        live_device(gpus[2], 141, 57.0, live_resident(47, 11.9, 35, 21.3, 48), live_resident(48, 5.8, 20, None, 47)),
        live_device(gpus[3], 141, 3.0, used_memory_bytes=9 * GIB, foreign_memory_bytes=8 * GIB),
    )


def _add_waiting(store: MemoryStore, now: float) -> None:
    reasons: list[tuple[int, str, str, list[list[Any]]]] = [
        (51, "vit-large", "PredictedLoad", [["sum_pct", 131.0], ["limit_pct", 100.0], ["beside", "#44"]]),
        (49, "whisper-medium", "SlowdownBudget", [["upper_slowdown", 1.31], ["budget", 1.15]]),
        (50, "sd-xl-lora", "PredictedMemory", [["needed_bytes", 96 * GIB], ["free_bytes", 71 * GIB]]),
        (53, "new-idea", "FirstRunExclusive", []),
    ]
    for job, name, rule, numbers in reasons:
        verdict = {"admitted": False, "rule": rule, "device": None, "numbers": numbers}
        of = record(now - 60 * (54 - job), name=name)
        store.rows[job] = row(job, of, JobState.PENDING, verdict=verdict)
    store.rows[52] = row(52, record(now - 4000, name="ablation-7"), JobState.HELD)


def _add_ended(store: MemoryStore, now: float, gpus: list[str]) -> None:
    ended: list[tuple[int, str, JobState, int | None, float, float, float | None]] = [
        (37, "resnet50-imagenet", JobState.COMPLETED, 0, 58.2, 27.8, 1.03),
        (38, "bert-finetune", JobState.COMPLETED, 0, 34.9, 21.2, 1.07),
        (39, "gnn-molecules", JobState.FAILED, 1, 12.0, 3.1, None),
        (40, "sd-xl-lora", JobState.OUT_OF_MEMORY, 137, 88.0, 139.2, None),
        (41, "lstm-weather", JobState.COMPLETED, 0, 22.4, 6.0, 1.02),
    ]
    for job, name, state, code, load, gib, slowdown in ended:
        store.rows[job] = row(job, record(now - 9000, name=name), state, attempt=1, state_since=now - 2000 + job)
        actual = AttemptOutcome(peak_utilization_pct=load, peak_memory_bytes=int(gib * GIB), slowdown=slowdown)
        believed = forecast(round(load * 1.05), round(gib * 1.02, 1), slowdown and 1.05)
        end = {"ended_at": now - 2000 + job, "ending": "exited", "exit_code": code, "actual": actual}
        store.tries[job] = [attempt(job, gpus[job % 4], now - 5200 + 37 * job, believed, **end)]
