"""What the core is told of jobs in a simulation: everything (oracle), nothing (cold), or what real learning makes of it.

The same seam as the daemon's: questions come, forecasts go; ended attempts are learnt; a night may pass.
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

# What a job is seen to use in a world that says nothing of memory: so little that memory keeps nobody apart.
UNSEEN_MEMORY_BYTES = 2**30


class TrainingResult(NamedTuple):
    """What came of a nightly training, and why."""

    published: bool
    reason: str


class Forecaster(Protocol):
    """Where forecasts come from."""

    def signature(self, arrival: JobArrival) -> str:
        """The signature that the job is submitted with; jobs of one signature get one forecast."""
        ...

    def answer(self, questions: Iterable[Question]) -> Mapping[Question, Forecast]:
        """A forecast for each question."""
        ...

    def learn(self, attempt: SimulatedAttempt, now: float) -> bool:
        """An attempt ended. Returns whether that may change any forecast."""
        ...

    def train(self, now: float) -> TrainingResult | None:
        """It is time for the nightly training; None where there is none."""
        ...


class Cold:
    """Knows nothing and learns nothing: every job runs alone."""

    def signature(self, arrival: JobArrival) -> str:
        """By kind."""
        return arrival.kind

    def answer(self, questions: Iterable[Question]) -> Mapping[Question, Forecast]:
        """Unknown, all of them."""
        return dict.fromkeys(questions, UNKNOWN)

    def learn(self, attempt: SimulatedAttempt, now: float) -> bool:  # noqa: ARG002 - it is a Beliefs
        """Ignored."""
        return False

    def train(self, now: float) -> None:
        """Ignored."""


class Oracle:
    """Knows the world and each job: the bound of what forecasts can give."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._arrivals: dict[str, JobArrival] = {}

    def signature(self, arrival: JobArrival) -> str:
        """One for each job, since each one's duration is known."""
        signature = f"{arrival.kind}#{arrival.job}"
        self._arrivals[signature] = arrival
        return signature

    def answer(self, questions: Iterable[Question]) -> Mapping[Question, Forecast]:
        """The truth."""
        return {question: self._truth(question) for question in questions}

    def learn(self, attempt: SimulatedAttempt, now: float) -> bool:  # noqa: ARG002 - it is a Beliefs
        """There is nothing to learn."""
        return False

    def train(self, now: float) -> None:
        """There is nothing to learn."""

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
