"""A job whose needs are known, and the rows that the record has of an attempt of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuq.adapters.store.row_types import AttemptRow, JobRow
from gpuq.core.state.forecast import Forecast
from gpuq.core.state.job import JobId, JobState
from gpuq.learn.features.kind import describe
from gpuq.messages.codec import plain
from gpuq.messages.job_record import JobRecord
from gpuq.messages.outcome import AttemptOutcome
from gpuq.messages.submission import Submission


@dataclass(frozen=True)
class Truth:
    """One job as measured: percent of the device, bytes."""

    owner: str
    script: str
    model: str
    batch: int | None
    device_type: str
    utilization_pct: float
    memory_bytes: int


def attempt_rows(
    truth: Truth, job: int, at: float, measured: Mapping[str, Any], forecast: Forecast | None = None
) -> tuple[JobRow, AttemptRow]:
    """A finished attempt as the record has it; it ended `at`."""
    kind, signature, features = described(truth)
    record = JobRecord(
        submission=_submission(truth), owner=truth.owner, uid=1, kind=kind, signature=signature, features=features,
        submitted_at=at - 60,
    )  # fmt: skip
    row = JobRow(
        id=JobId(job), record=record, state=JobState.COMPLETED, state_since=at, attempt=1, alone=False,
        cancel_requested=False, verdict=None, reason=None,
    )  # fmt: skip
    launch = {} if forecast is None else {"attempt": {"forecast": plain(forecast)}}
    return row, AttemptRow(
        job=JobId(job), number=1, host="h", devices=("h/0",), launched_at=at - 60, launch=launch, features=features,
        model_version=None, started_at=at - 60, ended_at=at, ending="exited", exit_code=0, actual=AttemptOutcome(**measured),
    )  # fmt: skip


def _submission(truth: Truth) -> Submission:
    batch = () if truth.batch is None else ("--batch-size", str(truth.batch))
    command = ("python", f"{truth.script}.py", "--model", truth.model, *batch)
    return Submission(command=command, cwd=f"/home/{truth.owner}/{truth.script}", script=f"{truth.script}.py")


def described(truth: Truth) -> tuple[str, str, dict[str, Any]]:
    """(kind, signature, features) of its submission."""
    found = _KNOWN.get(truth)
    if found is None:
        found = _KNOWN[truth] = describe(_submission(truth), truth.owner)
    return found


_KNOWN: dict[Truth, tuple[str, str, dict[str, Any]]] = {}
