"""Rows of jobs and attempts that have not ended, as the core has them."""

from __future__ import annotations

from dataclasses import replace

from gpuq.adapters.store.row_types import AttemptRow, JobRow, QueuedJob
from gpuq.core.state.attempt import Attempt, StopReason, opened
from gpuq.core.state.job import Job
from gpuq.messages.codec import decoded
from gpuq.messages.job_record import to_core


def job_from_row(row: JobRow | QueuedJob) -> Job:
    """The core's job, in the state that its row has."""
    new = to_core(row.id, row.record)
    return replace(
        new,
        after=() if row.waits.eligible else new.after,
        eligible=row.waits.eligible,
        eligible_at=row.waits.eligible_at,
        not_before=row.waits.not_before,
        retried=row.waits.retried,
        declared_memory=new.declared_memory if row.waits.memory is None else row.waits.memory,
        state=row.state,
        since=row.state_since,
        attempt=row.attempt,
        alone=row.alone,
        cancel_requested=row.cancel_requested,
    )


def attempt_from_row(row: AttemptRow) -> Attempt:
    """The core's attempt as it was launched, with its start and the reason for its stop if there are any yet."""
    stopping = None if row.stop_reason is None else StopReason(row.stop_reason)
    # Without the verdict, which may be by a rule that only a later release has.
    attempt = replace(decoded(row.launch["attempt"], Attempt), started_at=row.started_at, stopping=stopping)
    return attempt if row.opened_memory is None else opened(attempt, row.opened_memory)
