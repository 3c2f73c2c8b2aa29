"""What the core is told of jobs in a simulation: everything (oracle), nothing (cold), or what real learning makes of it.

The same seam as the daemon's: questions come, forecasts go; ended attempts are learnt; a night may pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from gpuq.core.forecast import MEASURED, UNKNOWN, Forecast, PairCost, Question
from gpuq.sim.record import AttemptRun
from gpuq.sim.trace import Arrival
from gpuq.sim.world import World

_GIB = 2**30


class Beliefs(Protocol):
    """Where forecasts come from."""

    def signature(self, arrival: Arrival) -> str:
        """The signature that the job is submitted with; jobs of one signature get one forecast."""
        ...

    def answer(self, questions: Iterable[Question]) -> Mapping[Question, Forecast]:
        """A forecast for each question."""
        ...

    def learn(self, attempt: AttemptRun, now: float) -> None:
        """An attempt ended."""
        ...

    def night(self, now: float) -> None:
        """It is time for the nightly training."""
        ...


class Cold:
    """Knows nothing and learns nothing: every job runs alone."""

    def signature(self, arrival: Arrival) -> str:
        """By kind."""
        return arrival.kind

    def answer(self, questions: Iterable[Question]) -> Mapping[Question, Forecast]:
        """Unknown, all of them."""
        return dict.fromkeys(questions, UNKNOWN)

    def learn(self, attempt: AttemptRun, now: float) -> None:
        """Ignored."""

    def night(self, now: float) -> None:
        """Ignored."""


class Oracle:
    """Knows the world and each job's duration: the bound of what forecasts can give."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._duration: dict[str, float] = {}

    def signature(self, arrival: Arrival) -> str:
        """One for each job, since each one's duration is known."""
        signature = f"{arrival.kind}#{arrival.job}"
        self._duration[signature] = arrival.duration_s
        return signature

    def answer(self, questions: Iterable[Question]) -> Mapping[Question, Forecast]:
        """The truth."""
        return {question: self._truth(question) for question in questions}

    def learn(self, attempt: AttemptRun, now: float) -> None:
        """There is nothing to learn."""

    def night(self, now: float) -> None:
        """There is nothing to learn."""

    def _truth(self, question: Question) -> Forecast:
        world, workload = self._world, self._world.workload(question.kind)
        duration = self._duration[question.signature] / workload.speeds.get(question.device_type, 1.0)
        memory = workload.memory_bytes if workload.memory_bytes is not None else _GIB
        pairs = tuple(
            PairCost(
                beside,
                newcomer=world.slowdown(question.kind, [beside]),
                newcomer_upper=world.slowdown(question.kind, [beside]),
                resident=world.slowdown(beside, [question.kind]),
                resident_upper=world.slowdown(beside, [question.kind]),
                evidence=MEASURED,
            )
            for beside in question.beside
        )
        return Forecast(
            peak_utilization_pct=workload.utilization_pct,
            peak_memory_bytes=memory,
            upper_memory_bytes=memory,
            duration_p50_s=duration,
            duration_p90_s=duration,
            evidence="oracle",
            pairs=pairs,
            pairs_known=True,
            power_w=workload.powers.get(question.device_type),
            speedups=tuple(sorted(workload.speedups.items())),
        )
