"""A small record, a small stream and a realistic afternoon of jobs, all in memory."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any

import msgspec

from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.row_types import AttemptRow, Chance, DeviceMark, Entry, JobRow, MarkKind
from gpuq.api.models import ExplainedForecast
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.device import Device
from gpuq.core.state.forecast import Forecast
from gpuq.core.state.job import JobId, JobState
from gpuq.errors import Unreachable
from gpuq.messages.codec import decoded
from gpuq.messages.job_record import JobRecord, QueuedRecord
from gpuq.messages.live import LiveView
from gpuq.messages.outcome import AttemptOutcome, PairSlowdown
from gpuq.messages.submission import Submission
from tests.support.memory_store import MemoryStore

GIB = 2**30


class FaultyStore(MemoryStore):
    """A record in memory whose calls can be made to fail or to wait. `refuse` makes every one of them fail."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[int] = []
        """How many submissions each call of `add_jobs` committed."""
        self.refuse: Exception | None = None
        self.bad: Callable[[JobRecord], bool] = lambda record: False
        self.before_commit: Callable[[], None] = lambda: None

    def add_jobs(self, records: Sequence[JobRecord]) -> list[JobId]:
        self.before_commit()
        if any(self.bad(record) for record in records):
            raise RuntimeError("secret detail of the driver")
        ids = super().add_jobs(records)
        self.batches.append(len(records))
        return ids

    # What tests do to it.
    def set_devices(self, *devices: Device) -> None:
        self.device_rows = {device.id: device for device in devices}

    def set_attempts(self, *attempts: AttemptRow) -> None:
        self.attempt_rows.update({AttemptId(row.job, row.number): row for row in attempts})

    def set_chances(self, *chances: Chance) -> None:
        self.chance_rows = {chance.job: chance for chance in chances}

    def set_state(self, job: int, state: JobState, **fields: Any) -> None:
        self.job_rows[JobId(job)] = msgspec.structs.replace(self.job_rows[JobId(job)], state=state, **fields)

    def tell(self, name: str, body: Any, *jobs: int) -> None:
        self.entries.append(Entry(seq=self.last_seq() + 1, at=time.time(), name=name, body=body, jobs=jobs))


def _unless_refused(name: str) -> Callable[..., Any]:
    call = getattr(FaultyStore, name)

    @wraps(call)
    def checked(store: FaultyStore, *arguments: Any, **named: Any) -> Any:
        if store.refuse is not None:
            raise store.refuse
        return call(store, *arguments, **named)

    return checked


for _name in (name for name, member in vars(Store).items() if callable(member) and not name.startswith("_")):
    setattr(FaultyStore, _name, _unless_refused(_name))


class MemoryStream:
    """Redis as the API sees it; `down` makes it unreachable, `hang` makes it silent, `fault` is what a write raises."""

    def __init__(self) -> None:
        self.down = False
        self.hang = False
        self.fault: Unreachable | None = None
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

    async def ping(self) -> None:
        await self._reach()
        if self.fault is not None:
            raise self.fault

    async def _reach(self) -> None:
        if self.hang:
            await asyncio.sleep(3600)
        if self.down:
            raise Unreachable("Redis does not answer.")


class SmallModels:
    """A shelf with one forecast."""

    def status(self) -> dict[str, Any]:
        return {"serving": "m-7", "versions": ["m-6", "m-7"]}

    def watch(self, view: LiveView | None) -> None:
        pass

    def forecasts(self, records: Iterable[JobRecord | QueuedRecord]) -> dict[str, dict[str, Any]]:
        return {record.signature: forecast(61.0, 9.8) for record in records}

    def explained_forecasts(
        self, kind: str, features: Mapping[str, Any], questions: Sequence[tuple[Device, tuple[str, ...]]]
    ) -> list[ExplainedForecast]:
        found = []
        for device, beside in questions:
            costs = [
                {"beside": kind, "newcomer": 1.04, "newcomer_upper": 1.1, "resident": 1.3, "resident_upper": 1.4}
                for kind in beside
            ]
            believed = decoded({**forecast(61.0, 9.8), "pairs": costs}, Forecast)
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


def picture(at: float, *devices: dict[str, Any], shares_redis: bool = False) -> bytes:
    dispatcher = {"pid": 4242, "passes": 918, "pass_seconds": 0.0021, "model_version": "m-7", "epoch": 4}
    dispatcher |= {"shares_redis": shares_redis}
    return msgspec.json.encode({"at": at, "dispatcher": dispatcher, "devices": list(devices)})


def afternoon(store: FaultyStore, stream: MemoryStream) -> None:
    """Four devices, shared and not; a queue with reasons; jobs that ended in different ways."""
    now = time.time()
    gpus = [f"GPU-8f2c41d0-1b7e-4c55-9a01-0000000000{n}" for n in range(4)]
    store.set_devices(*(Device(gpu, "rack-3", "nvml", "NVIDIA H200", 141 * GIB, index=gpu[-1]) for gpu in gpus))  # type: ignore[arg-type]
    running = [
        (42, "resnet50-imagenet", gpus[0], forecast(61, 28.5, 1.04)),
        (43, "bert-finetune", gpus[0], forecast(33, 22.0, 1.06)),
        (44, "llama-8b-lora", gpus[1], forecast(96, 118.0)),
        (47, "gan-celeba", gpus[2], forecast(38, 12.5, 1.02)),
        (48, "lstm-weather <b>", gpus[2], forecast(24, 6.2, 1.03)),
    ]
    for job, name, gpu, believed in running:
        store.job_rows[JobId(job)] = row(job, record(now - 1200, name=name), JobState.RUNNING, attempt=1)
        store.set_attempts(attempt(job, gpu, now - 900, believed))
    _add_waiting(store, now)
    _add_ended(store, now, gpus)
    _add_marks(store, now, gpus)
    stream.order = [51, 49, 50, 53]
    stream.picture = picture(
        now,
        live_device(gpus[0], 141, 84.0, live_resident(42, 27.1, 56, 11.8, 43), live_resident(43, 19.4, 28, 4.2, 42)),
        live_device(gpus[1], 141, 97.0, live_resident(44, 112.0, 97, 0.8)),
        live_device(gpus[2], 141, 57.0, live_resident(47, 11.9, 35, 21.3, 48), live_resident(48, 5.8, 20, None, 47)),
        live_device(gpus[3], 141, 3.0, used_memory_bytes=9 * GIB, foreign_memory_bytes=8 * GIB),
    )


def _add_waiting(store: FaultyStore, now: float) -> None:
    reasons: list[tuple[int, str, str, list[list[Any]]]] = [
        (51, "vit-large", "PredictedLoad", [["sum_pct", 131.0], ["limit_pct", 100.0], ["beside", "#44"]]),
        (49, "whisper-medium", "SlowdownBudget", [["upper_slowdown", 1.31], ["budget", 1.15]]),
        (50, "sd-xl-lora", "PredictedMemory", [["needed_bytes", 96 * GIB], ["free_bytes", 71 * GIB]]),
        (53, "new-idea", "FirstRunExclusive", []),
    ]
    for job, name, rule, numbers in reasons:
        verdict = {"admitted": False, "rule": rule, "device": None, "numbers": numbers}
        of = record(now - 60 * (54 - job), name=name)
        store.job_rows[JobId(job)] = row(job, of, JobState.PENDING, verdict=verdict)
    store.job_rows[JobId(52)] = row(52, record(now - 4000, name="ablation-7"), JobState.HELD)


def _add_marks(store: FaultyStore, now: float, gpus: list[str]) -> None:
    """What was seen on the devices in the last minutes: pauses for measuring, an error, lowered clocks."""
    seen = [
        (gpus[0], MarkKind.BLINK, "42", now - 700, now - 700, 1),
        (gpus[0], MarkKind.BLINK, "43", now - 300, now - 300, 1),
        (gpus[1], MarkKind.LOWERED_CLOCKS, "power_cap", now - 800, now - 200, 7),
        (gpus[1], MarkKind.XID, "13", now - 500, now - 480, 3),
    ]
    for device, kind, detail, start, end, count in seen:
        mark = DeviceMark(device=device, kind=kind, detail=detail, from_at=start, until_at=end, count=count)
        store.mark_rows[device, kind, detail, start] = mark


def _add_ended(store: FaultyStore, now: float, gpus: list[str]) -> None:
    ended: list[tuple[int, str, JobState, int | None, float, float, float | None]] = [
        (37, "resnet50-imagenet", JobState.COMPLETED, 0, 58.2, 27.8, 1.03),
        (38, "bert-finetune", JobState.COMPLETED, 0, 34.9, 21.2, 1.07),
        (39, "gnn-molecules", JobState.FAILED, 1, 12.0, 3.1, None),
        (40, "sd-xl-lora", JobState.OUT_OF_MEMORY, 137, 88.0, 139.2, None),
        (41, "lstm-weather", JobState.COMPLETED, 0, 22.4, 6.0, 1.02),
    ]
    for job, name, state, code, load, gib, slowdown in ended:
        store.job_rows[JobId(job)] = row(
            job, record(now - 9000, name=name), state, attempt=1, state_since=now - 2000 + job
        )
        pair = (
            ()
            if slowdown is None
            else (PairSlowdown(kind="ada:gan.py", value=slowdown, low=1.0, high=slowdown + 0.04),)
        )
        actual = AttemptOutcome(
            peak_utilization_pct=load,
            peak_memory_bytes=int(gib * GIB),
            slowdown=slowdown,
            slowdown_low=slowdown and 1.0,
            slowdown_high=slowdown and slowdown + 0.04,
            partners=(job - 1,) if pair else (),
            slowdowns=pair,
        )
        believed = forecast(round(load * 1.05), round(gib * 1.02, 1), slowdown and 1.05)
        end = {"ended_at": now - 2000 + job, "ending": "exited", "exit_code": code, "actual": actual}
        store.set_attempts(attempt(job, gpus[job % 4], now - 5200 + 37 * job, believed, **end))
