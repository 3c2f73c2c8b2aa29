"""The result of a simulation: every attempt, job, pass and training. Reports are made from it alone.

Times are virtual seconds from the trace's start unless they say otherwise. What was not measured, or makes no sense in the
simulated world, is None.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite

from gpuq.core.state.attempt import AttemptId, Ending
from gpuq.core.state.device import Device, DeviceId, HostId
from gpuq.core.state.forecast import Forecast
from gpuq.core.state.job import JobState
from gpuq.core.state.verdict import Rule
from gpuq.sim.trace import JobArrival


@dataclass(slots=True)
class Stretch:
    """Time that an attempt spent beside exactly these partners (their kinds, on the device where it is slowest).

    `seconds` is virtual time, `work_s` the work done in it, in seconds of the trace's durations. `slowdown` is time together /
    time alone on the same devices, so it does not count a slow type of device against the partners; infinite while paused.
    """

    beside: tuple[str, ...]
    seconds: float
    work_s: float
    slowdown: float


@dataclass(slots=True)
class SimulatedAttempt:
    """One attempt from its start to its end.

    `promised`: bytes on each device. `memory_bytes`: the most it really held on each; None in a world without memory. `lost_s`:
    seconds of work that did not advance the job, since it was not saved at the end or only loaded what had been saved.
    """

    id: AttemptId
    arrival: JobArrival
    devices: tuple[DeviceId, ...]
    device_type: str
    started_at: float
    forecast: Forecast
    rule: Rule
    promised: tuple[int, ...] = ()
    memory_bytes: int | None = None
    ended_at: float | None = None
    ending: Ending | None = None
    exit_code: int | None = None
    lost_s: float = 0.0
    stretches: list[Stretch] = field(default_factory=list)

    @property
    def running(self) -> list[Stretch]:
        """The stretches in which it was not paused."""
        return [stretch for stretch in self.stretches if isfinite(stretch.slowdown)]

    @property
    def work_s(self) -> float:
        """Seconds of work done, lost work included."""
        return sum(stretch.work_s for stretch in self.stretches)

    @property
    def slowdown(self) -> float | None:
        """Time taken / time alone on the same devices, over the whole attempt; None if it was over at once."""
        return _slowdown(self.stretches)


@dataclass(slots=True)
class SimulatedJob:
    """One job from its submission to its end. `ended_at` is None if it never ended. If its `state` is not COMPLETED it ended
    without its work done, for example because it ran out of memory when alone."""

    arrival: JobArrival
    state: JobState = JobState.PENDING
    first_started_at: float | None = None
    ended_at: float | None = None
    attempts: list[SimulatedAttempt] = field(default_factory=list)

    @property
    def completion_s(self) -> float | None:
        """Seconds from submission to end; None if it never ended."""
        return None if self.ended_at is None else self.ended_at - self.arrival.submit_s

    @property
    def wait_s(self) -> float | None:
        """Seconds between submission and end in which it did not run; None if it never ended."""
        if self.completion_s is None:
            return None
        ran = sum((a.ended_at or a.started_at) - a.started_at for a in self.attempts)
        return max(0.0, self.completion_s - ran)

    @property
    def slowdown(self) -> float | None:
        """Time taken / time alone on the same devices, over all its attempts; None if it never ran."""
        return _slowdown([stretch for attempt in self.attempts for stretch in attempt.stretches])


@dataclass(slots=True)
class AdmissionCounts:
    """Decisions about sharing, checked against the world and `SimulationRun.max_slowdown` (see `sim.audit`).

    `shared`: starts beside a partner; of those `wrongly_shared`: one of them is slowed beyond the budget, or they cannot run
    together at all. `refused`: refusals for load, slowdown, risk, memory or an unsafe pair, once for each job and set of
    partners' kinds; of those `wrongly_refused`: all would have stayed within the budget and the memory.
    """

    shared: int = 0
    wrongly_shared: int = 0
    refused: int = 0
    wrongly_refused: int = 0


@dataclass(frozen=True, slots=True)
class NightlyTraining:
    """One nightly training. `seconds` is real time; `published`: its model serves from then on."""

    at: float
    seconds: float
    published: bool
    reason: str


@dataclass(frozen=True, slots=True)
class HostLoss:
    """A host that was lost from `at` to `back_at`."""

    host: HostId
    at: float
    back_at: float


@dataclass(slots=True)
class SimulationRun:
    """One simulation.

    `pass_seconds`: real seconds of forecasting and deciding, one value per pass. `max_slowdown`: the budget of jobs that name
    none. `energy_kwh`: what all devices drew up to `ended_at`, and `idle_energy_kwh` the part drawn without a job; None where
    the world lacks a power that was needed. `fault`: that, and why, the default policy stood in for this one.
    `left_out` is as in `Trace`. `notes` are sentences for people.
    """

    trace: str
    world: str
    policy: str
    seed: int
    device_count: int
    devices: tuple[Device, ...] = ()
    max_slowdown: float = 1.15
    jobs: list[SimulatedJob] = field(default_factory=list)
    pass_seconds: list[float] = field(default_factory=list)
    trainings: list[NightlyTraining] = field(default_factory=list)
    losses: list[HostLoss] = field(default_factory=list)
    admissions: AdmissionCounts = field(default_factory=AdmissionCounts)
    energy_kwh: float | None = None
    idle_energy_kwh: float | None = None
    fault: str | None = None
    ended_at: float = 0.0
    left_out: float = 0.0
    notes: list[str] = field(default_factory=list)


def _slowdown(stretches: list[Stretch]) -> float | None:
    alone = sum(stretch.seconds / stretch.slowdown for stretch in stretches)
    return sum(stretch.seconds for stretch in stretches) / alone if alone > 0 else None
