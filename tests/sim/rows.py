"""Rows of gpuq's record, as short as a story needs them."""

from __future__ import annotations

from typing import Any

from gpuq.adapters.store.row_types import AttemptRow, JobRow
from gpuq.core.measuring.measurement import Measurement, Segment
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.job import JobId, JobState
from gpuq.messages.codec import plain
from gpuq.messages.job_record import JobRecord
from gpuq.messages.outcome import AttemptOutcome
from gpuq.messages.submission import Submission

Ended = tuple[JobRow, AttemptRow]


def ended(
    number: int, kind: str, *, at: float = 0.0, start: float | None = None, lasts: float = 60.0, **more: Any
) -> Ended:
    """Job `number` of this kind: submitted `at`, started at `start` (default: at once), over after `lasts` seconds.

    `beside=(partner number, kind, slowdown, share of its time)` is a partner; the other names are fields of the attempt.
    """
    beside = more.pop("beside", None)
    actual: dict[str, Any] = {
        "peak_utilization_pct": more.pop("utilization", 50.0),
        "peak_memory_bytes": 2**30,
        "device_type": "GPU",
        "alone_rate": 10.0,
        "partners": (),
        "partner_kinds": (),
    }
    segments = (_segment((), lasts),)
    if beside is not None:
        partner, partner_kind, slowdown, share = beside
        actual |= {"partners": (partner,), "partner_kinds": (partner_kind,), "slowdown": slowdown}
        together = (AttemptId(JobId(partner), 1),)
        segments = (_segment(together, share * lasts), _segment((), (1 - share) * lasts))
    record = JobRecord(
        submission=Submission(command=("python", "train.py"), cwd="/"), owner="ada", uid=None, kind=kind,
        signature=kind, features={}, submitted_at=at,
    )  # fmt: skip
    job = JobRow(
        id=JobId(number), record=record, state=JobState.COMPLETED, state_since=at, attempt=1,
        alone=False, cancel_requested=False, verdict=None, reason=None,
    )  # fmt: skip
    started = at if start is None else start
    values: dict[str, Any] = {
        "job": JobId(number), "number": 1, "host": "h", "devices": ("h/0",), "launched_at": started, "launch": {},
        "features": {}, "model_version": None, "started_at": started, "ended_at": started + lasts, "ending": "exited",
        "exit_code": 0, "measurement": plain(Measurement(segments=segments)), "actual": AttemptOutcome(**actual),
    }  # fmt: skip
    return job, AttemptRow(**{**values, **more})


def _segment(partners: tuple[AttemptId, ...], seconds: float) -> Segment:
    return Segment(partners, seconds, round(10 * seconds), max(1, round(seconds / 5)), 10.0, 100.0)
