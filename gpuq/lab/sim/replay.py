"""Was a simulation true? A recorded run is played again, and each job's fate in both is set side by side.

Arrives: a `Recording` of a real run: first each kind of work alone and each pair together, then the jobs that are judged.
Leaves: a `Replay`.

Given to the replay are the judged jobs' submission times and kinds, the devices, the policy and the limits; and from the
jobs before them: how long each kind takes alone, what each pair slows each other, and the record that forecasts rest on.
Foretold is the rest: who runs where and when, beside whom, how fast, and when all is done. No judged job's start, end or rate
is looked at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import msgspec

from gpuq.adapters.store.contract import AttemptRow, JobRow
from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.device import Device
from gpuq.core.state.job import JobId
from gpuq.lab.sim.remembered import Remembered
from gpuq.policies.registry import make
from gpuq.settings import Learning, Scheduling
from gpuq.sim.candidate import Contender
from gpuq.sim.record import JobRun, Run
from gpuq.sim.run import simulate
from gpuq.sim.trace import Arrival, Trace
from gpuq.sim.traces.past import past
from gpuq.sim.worlds.measured import measured_world


@dataclass(frozen=True)
class Recording:
    """gpuq's own rows as plain data, so that a replay needs no database. `first` is the first job that is judged."""

    devices: tuple[Device, ...]
    limits: Limits
    policy: str
    first: int
    jobs: tuple[JobRow, ...]
    attempts: tuple[AttemptRow, ...]
    """Those that started and ended."""

    def ended(self, *, judged: bool) -> list[tuple[JobRow, AttemptRow]]:
        """Ended attempts with their jobs, as `Store.finished_attempts` has them: the judged ones, or those before."""
        jobs = {job.id: job for job in self.jobs if (job.id >= self.first) is judged}
        return [(jobs[attempt.job], attempt) for attempt in self.attempts if attempt.job in jobs]


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a job: seconds from the first judged submission to its end, and its time on a device / its time alone."""

    ended_s: float
    slowdown: float


@dataclass(frozen=True, slots=True)
class Both:
    """One job, as it was and as it was foretold."""

    job: JobId
    kind: str
    lived: Fate
    foretold: Fate

    @property
    def deviation(self) -> float:
        """How far off the foretold slowdown is, as a share of the lived one."""
        return abs(self.foretold.slowdown / self.lived.slowdown - 1)


@dataclass(frozen=True, slots=True)
class Replay:
    """All judged jobs, in the order of their submission."""

    jobs: tuple[Both, ...]

    @property
    def makespans(self) -> tuple[float, float]:
        """(lived, foretold): seconds from the first submission to the last end."""
        return max(both.lived.ended_s for both in self.jobs), max(both.foretold.ended_s for both in self.jobs)

    @property
    def makespan_deviation(self) -> float:
        """As a share of the lived one."""
        lived, foretold = self.makespans
        return abs(foretold / lived - 1)


def replay(recording: Recording) -> Replay:
    """Play the judged jobs again. Each must have run once, from its start to its end, of a kind that was measured before."""
    known = past(recording.devices, recording.ended(judged=False))
    alone = _alone(recording.ended(judged=False))
    lived = sorted(recording.ended(judged=True), key=lambda row: row[0].record.submitted_at)
    start = lived[0][0].record.submitted_at
    arrivals = tuple(
        Arrival(job.id, job.record.submitted_at - start, alone[job.record.kind], 1, job.record.kind, job.record.owner)
        for job, _ in lived
    )
    world = measured_world(sorted(alone), known.outcomes, recording.devices, restart_s=0.0)
    policy = make(Scheduling(policy=recording.policy))
    run = simulate(
        Trace("recorded", arrivals), world, Remembered(known.outcomes, Learning()),
        Contender(recording.policy, policy, recording.limits),
    )  # fmt: skip
    return Replay(tuple(_both(job, attempt, start, alone, run) for job, attempt in lived))


def keep(recording: Recording, path: Path) -> None:
    """As JSON."""
    path.write_bytes(msgspec.json.encode(recording) + b"\n")


def read(path: Path) -> Recording:
    """What `keep` wrote. Raises msgspec.ValidationError, and OSError."""
    return msgspec.json.decode(path.read_bytes(), type=Recording)


def _alone(ended: Sequence[tuple[JobRow, AttemptRow]]) -> Mapping[str, float]:
    """Seconds from start to end of each kind's attempts that never had a partner and ended by themselves: the median."""
    found: dict[str, list[float]] = defaultdict(list)
    for job, attempt in ended:
        if attempt.exit_code == 0 and not (attempt.actual and attempt.actual.partners):
            found[job.record.kind].append(_seconds(attempt))
    return {kind: median(seconds) for kind, seconds in found.items()}


def _both(job: JobRow, attempt: AttemptRow, start: float, alone: Mapping[str, float], run: Run) -> Both:
    kind = job.record.kind
    played = next(played for played in run.jobs if played.arrival.job == job.id)
    return Both(
        job.id, kind,
        Fate((attempt.ended_at or 0.0) - start, _seconds(attempt) / alone[kind]),
        Fate(played.ended_at or 0.0, _simulated_seconds(played) / alone[kind]),
    )  # fmt: skip


def _seconds(attempt: AttemptRow) -> float:
    return (attempt.ended_at or 0.0) - (attempt.started_at or 0.0)


def _simulated_seconds(played: JobRun) -> float:
    return sum((attempt.ended_at or 0.0) - attempt.started_at for attempt in played.attempts)
