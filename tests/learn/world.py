"""A small synthetic world: kinds with known needs, from which attempts are drawn with noise."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec

from gpuq.adapters.store.row_types import AttemptRow, JobRow
from gpuq.core.state.job import JobId, JobState
from gpuq.learn.features.kind import describe
from gpuq.learn.history.outcome import Outcome
from gpuq.messages.job_record import JobRecord
from gpuq.messages.outcome import AttemptOutcome, outcome_from_json
from gpuq.messages.submission import Submission

GIB = 2**30
DEVICE = "Test GPU"


@dataclass(frozen=True)
class Work:
    """One kind's truth: what it needs when it runs."""

    model: str
    batch: int
    utilization_pct: float
    memory_bytes: int
    noise: float = 0.02
    script_sha256: str | None = "a" * 64

    def described(self) -> tuple[str, str, dict[str, object]]:
        return describe(submission(self.model, self.batch, sha=self.script_sha256), "alice")


def submission(model: str, batch: int, *, sha: str | None = "a" * 64, lr: str = "0.1") -> Submission:
    command = ("python", "train.py", "--model", model, "--batch-size", str(batch), "--lr", lr)
    return Submission(command=command, cwd="/home/alice/vision", script="train.py", script_sha256=sha)


@cache
def _described(work: Work) -> tuple[str, str, dict[str, object]]:
    return work.described()


def run(work: Work, number: int, chance: random.Random, **changes: object) -> Outcome:
    """One finished attempt of this work; `changes` replace fields."""
    kind, signature, features = _described(work)
    values: dict[str, object] = {
        "kind": kind,
        "signature": signature,
        "script_sha256": work.script_sha256,
        "device_type": DEVICE,
        "features": features,
        "peak_utilization_pct": min(100.0, work.utilization_pct * chance.lognormvariate(0, work.noise)),
        "peak_memory_bytes": round(work.memory_bytes * chance.lognormvariate(0, work.noise)),
        "duration_s": 60.0 * chance.lognormvariate(0, work.noise),
        "alone_rate": 10.0,
        "shared_rate": None,
        "slowdowns": (),
        "ending": "exited",
        "shared": False,
        "ended_at": 1000.0 + 60 * number,
        "attempt": (number, 1),
    }
    return Outcome(**{**values, **changes})  # type: ignore[arg-type]


def recorded(actual: Mapping[str, Any]) -> AttemptOutcome:
    """These values as the record gives them back, damaged ones among them. JSON has no NaN, so those are put back afterwards."""
    outcome = outcome_from_json(msgspec.json.encode(actual))
    assert outcome is not None
    odd = {name: value for name, value in actual.items() if isinstance(value, float) and not math.isfinite(value)}
    return msgspec.structs.replace(outcome, **odd)


def rows(
    work: Work,
    number: int,
    chance: random.Random,
    *,
    at: float,
    owner: str = "alice",
    lasts: float = 30.0,
    **actual: Any,
) -> tuple[JobRow, AttemptRow]:
    """One finished attempt as the record has it, submitted `at`; `actual` replaces what was measured."""
    kind, signature, features = _described(work)
    record = JobRecord(
        submission=submission(work.model, work.batch), owner=owner, uid=1, kind=kind, signature=signature,
        features=features, submitted_at=at,
    )  # fmt: skip
    job = JobRow(
        id=JobId(number), record=record, state=JobState.COMPLETED, state_since=at, attempt=1,
        alone=False, cancel_requested=False, verdict=None, reason=None,
    )  # fmt: skip
    measured = {
        "peak_utilization_pct": min(100.0, work.utilization_pct * chance.lognormvariate(0, work.noise)),
        "peak_memory_bytes": round(work.memory_bytes * chance.lognormvariate(0, work.noise)),
        "alone_rate": 10.0, "shared_rate": None, "slowdown": None, "partners": [], "partner_kinds": [],
        "device_type": "GPU",
    }  # fmt: skip
    return job, AttemptRow(
        job=JobId(number), number=1, host="h", devices=("h/0",), launched_at=at, launch={}, features=features,
        model_version=None, started_at=at, ended_at=at + lasts, ending="exited", exit_code=0,
        actual=recorded({**measured, **actual}),
    )  # fmt: skip
