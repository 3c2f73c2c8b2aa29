"""A site's own record as a scenario: the jobs that ran here, on the site's devices, or on more or fewer of them.

Each job counts with its last attempt that ended by itself. Time beside partners is divided by the slowdown measured there, so
that it counts for as much as the work done in it. The record is only read, and no daemon is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gpuq.adapters.store import open_store
from gpuq.adapters.store.row_types import AttemptRow, JobRow
from gpuq.core.measuring.measurement import Measurement
from gpuq.core.state.attempt import Ending
from gpuq.core.state.device import Device
from gpuq.learn.history.history import History, place_of
from gpuq.learn.history.outcome import Outcome, outcome_from_rows
from gpuq.messages.codec import decoded
from gpuq.settings import load
from gpuq.sim.scenario_builder import RESTART_S, Scenario, ScenarioOptions, build_scenario, timed_trace
from gpuq.sim.traces.requests import ImportedTrace, TraceJob, imported
from gpuq.sim.world import machines
from gpuq.sim.worlds.measured import measured_world
from gpuq.sim.worlds.workload_set import WorkloadSet

Ended = Sequence[tuple[JobRow, AttemptRow]]
# The endings of attempts that ended by themselves. One that was stopped, lost or out of memory does not show how long the job
# would have run.
_BY_THEMSELVES = frozenset({Ending.EXITED, Ending.TIMED_OUT})


@dataclass(frozen=True)
class SiteHistory:
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


def read_site_history(environ: Mapping[str, str] | None = None) -> SiteHistory:
    """The record that the settings of this environment name.

    Raises BadInput for a record in which nothing ended, BadSettings or Unreachable where it cannot be read.
    """
    store = open_store(load(environ).database_url)
    try:
        return site_history(store.devices(), store.finished_attempts())
    finally:
        store.close()


def history_scenario(found: SiteHistory, options: ScenarioOptions, workload_set: WorkloadSet | None) -> Scenario:
    """The record in the world as it was measured here, or with the set's workloads. `options.gpus` None: the site's own
    devices.
    """
    devices = found.devices
    if options.gpus is not None:
        # Devices of the site's most frequent class, on hosts as large as the site's largest.
        (device_class, _), *_ = Counter((one.type, one.total_memory, one.sharing) for one in devices).most_common(1)
        largest = max(Counter(device.host for device in devices).values())
        devices = machines(options.gpus, *device_class, per_host=largest)
    counted = replace(options, gpus=len(devices), per_host=max(Counter(device.host for device in devices).values()))
    if workload_set is not None:
        return build_scenario(found.trace, workload_set, counted)
    trace, jobs = timed_trace(found.trace, counted)
    return Scenario(trace, measured_world([job.kind or "" for job in jobs], found.outcomes, devices, RESTART_S))


def site_history(devices: Iterable[Device], ended: Ended) -> SiteHistory:
    """The trace and outcomes of ended attempts and their jobs, oldest first. Raises BadInput where no job ended by itself."""
    found = tuple(devices)
    types: dict[str, str] = {device.id: device.type for device in found}
    outcomes, runs, others, over_hosts = [], {}, set(), set()
    for job, attempt in ended:
        outcome = outcome_from_rows(job, attempt, types)
        if outcome is None:
            continue
        outcomes.append(outcome)
        if job.record.submission.hosts > 1:
            over_hosts.add(job.id)
        elif attempt.ending in _BY_THEMSELVES and attempt.started_at is not None and attempt.ended_at is not None:
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
    if over_hosts:
        notes.append(f"left out: {len(over_hosts)} jobs over several hosts")
    return SiteHistory(found, tuple(outcomes), imported("history", jobs, notes))


def _alone_s(run: _Run, history: History) -> tuple[float, bool]:
    """(seconds that the attempt would have taken alone, whether that rests on measured slowdowns).

    Time beside partners is divided by the slowdown measured in this attempt, else by the one measured of the pair of kinds.
    """
    measurement = decoded(run.attempt.measurement, Measurement) if run.attempt.measurement else Measurement()
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
