"""What came of a simulation: each attempt, each job, each pass. The report works on nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuq.core.attempt import AttemptId, Ending
from gpuq.core.device import DeviceId
from gpuq.core.forecast import Forecast
from gpuq.core.job import JobState
from gpuq.core.verdict import Rule
from gpuq.sim.trace import Arrival


@dataclass(slots=True)
class Stretch:
    """Time that an attempt spent beside exactly these partners (kinds, one device's worst), and the work done meanwhile.

    `seconds` is virtual time, `work_s` what it would have taken alone: their ratio is the true slowdown of the stretch.
    """

    beside: tuple[str, ...]
    seconds: float
    work_s: float


@dataclass(slots=True)
class AttemptRun:
    """One attempt from its start to its end."""

    id: AttemptId
    arrival: Arrival
    devices: tuple[DeviceId, ...]
    device_type: str
    started_at: float
    forecast: Forecast
    rule: Rule
    ended_at: float | None = None
    ending: Ending | None = None
    exit_code: int | None = None
    stretches: list[Stretch] = field(default_factory=list)

    @property
    def work_s(self) -> float:
        """Seconds of work done, as they would have passed alone."""
        return sum(stretch.work_s for stretch in self.stretches)

    @property
    def slowdown(self) -> float | None:
        """Time taken / time alone, over the whole attempt; None if it did no work."""
        work = self.work_s
        return sum(stretch.seconds for stretch in self.stretches) / work if work > 0 else None


@dataclass(slots=True)
class JobRun:
    """One job from its submission to its end. `ended_at` is None for one that never ended."""

    arrival: Arrival
    state: JobState = JobState.PENDING
    first_started_at: float | None = None
    ended_at: float | None = None
    attempts: list[AttemptRun] = field(default_factory=list)

    @property
    def completion_s(self) -> float | None:
        """From submission to end."""
        return None if self.ended_at is None else self.ended_at - self.arrival.submit_s

    @property
    def wait_s(self) -> float | None:
        """The part of the completion time in which it did not run."""
        if self.completion_s is None:
            return None
        ran = sum((a.ended_at or a.started_at) - a.started_at for a in self.attempts)
        return max(0.0, self.completion_s - ran)


@dataclass(slots=True)
class Run:
    """One simulation. `pass_seconds` are real seconds of `ask`, the answers and `decide`, one per pass."""

    trace: str
    world: str
    policy: str
    seed: int
    device_count: int
    jobs: list[JobRun] = field(default_factory=list)
    pass_seconds: list[float] = field(default_factory=list)
    nights: list[float] = field(default_factory=list)
    ended_at: float = 0.0
    notes: list[str] = field(default_factory=list)
