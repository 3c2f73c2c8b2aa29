"""Where a simulation's forecasts come from: everything known (`Oracle`), nothing (`Cold`), or the daemon's learning
(`sim.learned`).

A forecaster has the same interface to the core as the daemon's: it answers questions, learns from ended attempts, and is
trained once a virtual day.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isinf
from typing import NamedTuple, Protocol

from gpuq.core.state.forecast import UNKNOWN, Forecast, PairCost, Question
from gpuq.core.state.job import KindId
from gpuq.sim.memory import peak_memory
from gpuq.sim.record import SimulatedAttempt
from gpuq.sim.trace import JobArrival
from gpuq.sim.world import World

# The peak that is measured of a job in a world without memory: so small that memory never keeps two jobs apart.
UNSEEN_MEMORY_BYTES = 2**30


class TrainingResult(NamedTuple):
    """Whether a nightly training published a model, and why or why not."""

    published: bool
    reason: str


class Forecaster(Protocol):
    """Where forecasts come from."""

    def signature(self, arrival: JobArrival) -> str:
        """The signature that the job is submitted with; jobs of one signature get the same forecast."""
        ...

    def answer(self, questions: Iterable[Question]) -> Mapping[Question, Forecast]:
        """A forecast for each question."""
        ...

    def learn(self, attempt: SimulatedAttempt, now: float) -> bool:
        """Learn from an ended attempt. Returns whether that may change any forecast."""
        ...

    def watch(self, running: Iterable[SimulatedAttempt]) -> bool:
        """Let these attempts, which go on, count as far as they go, in place of those of the last call. Returns whether that may
        change any forecast."""
        ...

    def train(self, now: float) -> TrainingResult | None:
        """The nightly training; None where none was made."""
        ...


class Cold:
    """Knows nothing and learns nothing, so every job runs alone."""

    def signature(self, arrival: JobArrival) -> str:
        """The job's kind."""
        return arrival.kind

    def answer(self, questions: Iterable[Question]) -> Mapping[Question, Forecast]:
        """An unknown forecast for each."""
        return dict.fromkeys(questions, UNKNOWN)

    def learn(self, attempt: SimulatedAttempt, now: float) -> bool:  # noqa: ARG002 - the interface of Forecaster
        """Does nothing."""
        return False

    def watch(self, running: Iterable[SimulatedAttempt]) -> bool:  # noqa: ARG002 - the interface of Forecaster
        """Does nothing."""
        return False

    def train(self, now: float) -> None:
        """Does nothing."""


class Oracle:
    """Knows the world and each job: the best that any forecast could be."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._arrivals: dict[str, JobArrival] = {}

    def signature(self, arrival: JobArrival) -> str:
        """One for each job, since the duration of each is known."""
        signature = f"{arrival.kind}#{arrival.job}"
        self._arrivals[signature] = arrival
        return signature

    def answer(self, questions: Iterable[Question]) -> Mapping[Question, Forecast]:
        """What really happens in this world, as forecasts."""
        return {question: self._truth(question) for question in questions}

    def learn(self, attempt: SimulatedAttempt, now: float) -> bool:  # noqa: ARG002 - the interface of Forecaster
        """Does nothing: everything is known."""
        return False

    def watch(self, running: Iterable[SimulatedAttempt]) -> bool:  # noqa: ARG002 - the interface of Forecaster
        """Does nothing: everything is known."""
        return False

    def train(self, now: float) -> None:
        """Does nothing: everything is known."""

    def _truth(self, question: Question) -> Forecast:
        world, arrival = self._world, self._arrivals[question.signature]
        workload = world.workload(question.kind)
        memory = peak_memory(world, arrival) or UNSEEN_MEMORY_BYTES
        duration = arrival.duration_s / workload.speeds.get(question.device_type, 1.0)
        return Forecast(
            peak_utilization_pct=workload.utilization_pct,
            peak_memory_bytes=memory,
            upper_memory_bytes=memory,
            duration_p50_s=duration,
            duration_p90_s=duration,
            duration_runs=1_000,
            evidence="oracle",
            pairs=tuple(self._cost(question.kind, beside) for beside in question.beside),
            pairs_known=True,
            power_w=workload.powers.get(question.device_type),
            speedups=tuple(sorted(workload.speedups.items())),
        )

    def _cost(self, kind: KindId, beside: KindId) -> PairCost:
        newcomer, resident = self._world.slowdown(kind, [beside]), self._world.slowdown(beside, [kind])
        if isinf(max(newcomer, resident)):
            return PairCost(beside, None, None, None, None, unsafe=True)
        return PairCost(beside, newcomer, newcomer, resident, resident)
