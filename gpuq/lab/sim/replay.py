"""Compares a simulation with reality: a recorded run is simulated again, and each job's fate in both is set side by side.

The recording has first each kind of work alone and each pair together, then the jobs that are judged. The simulation is given
the judged jobs' submission times and kinds, the devices, the policy and the limits; and from the jobs before them how long each
kind takes alone, what each pair slows each other, and the history for forecasts. It predicts the rest: where and when each job
runs, beside which others, how fast, and when all is done. No judged job's start, end or rate is used.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import msgspec

from gpuq.adapters.store.row_types import AttemptRow, JobRow
from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.device import Device
from gpuq.core.state.job import JobId
from gpuq.lab.sim.record_forecaster import RecordForecaster
from gpuq.policies.registry import make
from gpuq.settings import Learning, Scheduling
from gpuq.sim.candidate import Candidate
from gpuq.sim.run import simulate
from gpuq.sim.trace import JobArrival, Trace
from gpuq.sim.traces.history import site_history
from gpuq.sim.worlds.measured import measured_world


@dataclass(frozen=True)
class Recording:
    """Rows of gpuq's record as plain data, so that a replay needs no database. `first` is the first job that is judged."""

    devices: tuple[Device, ...]
    limits: Limits
    policy: str
    first: int
    jobs: tuple[JobRow, ...]
    attempts: tuple[AttemptRow, ...]
    """The attempts that started and ended."""

    def ended(self, *, judged: bool) -> list[tuple[JobRow, AttemptRow]]:
        """Ended attempts with their jobs, as `Store.finished_attempts` returns them: of the judged jobs, or of those before."""
        jobs = {job.id: job for job in self.jobs if (job.id >= self.first) is judged}
        return [(jobs[attempt.job], attempt) for attempt in self.attempts if attempt.job in jobs]


@dataclass(frozen=True, slots=True)
class Fate:
    """One job: seconds from the first judged submission to its end, and its time on a device / its time alone."""

    ended_s: float
    slowdown: float


@dataclass(frozen=True, slots=True)
class ReplayedJob:
    """One job, as it really ran and as it was simulated."""

    job: JobId
    kind: str
    real: Fate
    simulated: Fate

    @property
    def deviation(self) -> float:
        """The error of the simulated slowdown, as a share of the real one."""
        return abs(self.simulated.slowdown / self.real.slowdown - 1)


@dataclass(frozen=True, slots=True)
class Replay:
    """All judged jobs, in the order of their submission."""

    jobs: tuple[ReplayedJob, ...]

    @property
    def makespans(self) -> tuple[float, float]:
        """(real, simulated) seconds from the first submission to the last end."""
        return max(job.real.ended_s for job in self.jobs), max(job.simulated.ended_s for job in self.jobs)

    @property
    def makespan_deviation(self) -> float:
        """The error of the simulated makespan, as a share of the real one."""
        real, simulated = self.makespans
        return abs(simulated / real - 1)


def replay(recording: Recording) -> Replay:
    """Simulate the judged jobs. Each must have run once, from start to end, and be of a kind that was measured before."""
    before = recording.ended(judged=False)
    known = site_history(recording.devices, before)
    # Each kind's median seconds from start to end, over attempts that had no partner and ended with exit code 0.
    seconds: dict[str, list[float]] = defaultdict(list)
    for job, attempt in before:
        if attempt.exit_code == 0 and not (attempt.actual and attempt.actual.partners):
            seconds[job.record.kind].append(_seconds(attempt))
    alone = {kind: median(found) for kind, found in seconds.items()}
    judged = sorted(recording.ended(judged=True), key=lambda row: row[0].record.submitted_at)
    start = judged[0][0].record.submitted_at
    arrivals = tuple(
        JobArrival(
            job.id, job.record.submitted_at - start, alone[job.record.kind], 1, job.record.kind, job.record.owner
        )
        for job, _ in judged
    )
    world = measured_world(sorted(alone), known.outcomes, recording.devices, restart_s=0.0)
    policy = make(Scheduling(policy=recording.policy))
    run = simulate(
        Trace("recorded", arrivals), world, RecordForecaster(known.outcomes, Learning()),
        Candidate(recording.policy, policy, recording.limits),
    )  # fmt: skip
    played = {job.arrival.job: job for job in run.jobs}
    jobs = []
    for job, attempt in judged:
        kind, simulated = job.record.kind, played[job.id]
        busy_s = sum((attempt.ended_at or 0.0) - attempt.started_at for attempt in simulated.attempts)
        real = Fate((attempt.ended_at or 0.0) - start, _seconds(attempt) / alone[kind])
        jobs.append(ReplayedJob(job.id, kind, real, Fate(simulated.ended_at or 0.0, busy_s / alone[kind])))
    return Replay(tuple(jobs))


def keep(recording: Recording, path: Path) -> None:
    """Write the recording as JSON."""
    path.write_bytes(msgspec.json.encode(recording) + b"\n")


def read(path: Path) -> Recording:
    """Read what `keep` wrote. Raises msgspec.ValidationError and OSError."""
    return msgspec.json.decode(path.read_bytes(), type=Recording)


def _seconds(attempt: AttemptRow) -> float:
    return (attempt.ended_at or 0.0) - (attempt.started_at or 0.0)
