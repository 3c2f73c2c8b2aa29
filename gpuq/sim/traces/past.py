"""gpuq's own record as a trace: when each job was submitted, and how long it would have run alone.

Each job counts with its last attempt that ended by itself. Time beside partners is divided by the slowdown measured there, so
that it counts for as much as the work done in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpuq.adapters.store.contract import AttemptRow, JobRow
from gpuq.core.measuring.measurement import Measurement
from gpuq.core.state.attempt import Ending
from gpuq.core.state.device import Device
from gpuq.learn.history.history import History, place_of
from gpuq.learn.history.outcome import Outcome, outcome_from_rows
from gpuq.messages.codec import noun
from gpuq.sim.traces.requests import ImportedTrace, TraceJob, imported

Ended = Sequence[tuple[JobRow, AttemptRow]]
# The endings of attempts that ended by themselves. One that was stopped, lost or out of memory does not show how long the job
# would have run.
_BY_THEMSELVES = frozenset({Ending.EXITED, Ending.TIMED_OUT})


@dataclass(frozen=True)
class Past:
    """A record's devices, the outcome of each attempt, and its jobs as a trace."""

    devices: tuple[Device, ...]
    outcomes: tuple[Outcome, ...]
    trace: ImportedTrace


@dataclass(frozen=True, slots=True)
class _Run:
    """The last attempt of a job that ended by itself."""

    job: JobRow
    attempt: AttemptRow
    outcome: Outcome
    ran_s: float


def past(devices: Iterable[Device], ended: Ended) -> Past:
    """The trace and outcomes of ended attempts and their jobs, oldest first. Raises BadInput where no job ended by itself."""
    found = tuple(devices)
    types: dict[str, str] = {device.id: device.type for device in found}
    outcomes, runs, others = [], {}, set()
    for job, attempt in ended:
        outcome = outcome_from_rows(job, attempt, types)
        if outcome is None:
            continue
        outcomes.append(outcome)
        if attempt.ending in _BY_THEMSELVES and attempt.started_at is not None and attempt.ended_at is not None:
            runs[job.id] = _Run(job, attempt, outcome, max(1e-3, attempt.ended_at - attempt.started_at))
        else:
            others.add(job.id)
    history = History()
    for outcome in outcomes:
        history.learn(outcome)
    jobs, guessed = [], 0
    for run in runs.values():
        duration, measured = _alone_s(run, history)
        guessed += not measured
        record, asked = run.job.record, run.job.record.submission
        # With the devices that the last attempt had: the duration is for those.
        jobs.append(
            TraceJob(
                record.submitted_at, duration, len(run.attempt.devices) or 1, record.owner,
                owner=record.owner, kind=record.kind, priority=asked.priority, deadline_s=asked.deadline_at,
                declared_memory=asked.gpu_memory, preemptible=asked.preemptible,
            )
        )  # fmt: skip
    notes = [
        f"{len(jobs)} jobs of gpuq's record, each with its last attempt; seconds beside a partner count 1 / slowdown"
    ]
    if guessed:
        notes.append(f"{guessed} of them shared and their slowdown was not measured: they count as they ran")
    if left := len(others - set(runs)):
        notes.append(f"left out: {left} jobs that were stopped, lost, or ran out of memory")
    return Past(found, tuple(outcomes), imported("history", jobs, notes))


def _alone_s(run: _Run, history: History) -> tuple[float, bool]:
    """(seconds that the attempt would have taken alone, whether that rests on measured slowdowns).

    Time beside partners is divided by the slowdown measured in this attempt, else by the one measured of the pair of kinds.
    """
    measurement = noun(run.attempt.measurement, Measurement) if run.attempt.measurement else Measurement()
    seconds = sum(segment.seconds for segment in measurement.segments)
    if not run.outcome.shared or seconds <= 0:
        return run.ran_s, not run.outcome.shared
    outcome = run.outcome
    slowdowns = [value for _, value, _, _ in outcome.slowdowns] or [
        slowdown.value
        for partner in outcome.partner_kinds
        for slowdown in history.slowdowns(outcome.kind, partner, place_of(outcome.device_type, outcome.sharing))
    ]
    if not slowdowns:
        return run.ran_s, False
    beside = sum(s.seconds for s in measurement.segments if s.partners and not s.blink) / seconds
    return run.ran_s * (1 - beside + beside / (sum(slowdowns) / len(slowdowns))), True
