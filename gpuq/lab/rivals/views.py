"""Forecasters that show a rival less than gpuq sees, or more.

They replace the forecaster (`Candidate.wrap_forecaster`). Which pairs a rival admits is expressed in the forecast of the pair:
unsafe where the rival would not share, without any cost where it would. So the core needs no branch for a rival.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from gpuq.core.state.forecast import RULE, Forecast, PairCost, Question
from gpuq.core.state.job import KindId
from gpuq.sim.forecaster import Forecaster, Oracle, TrainingResult
from gpuq.sim.record import SimulatedAttempt
from gpuq.sim.trace import JobArrival
from gpuq.sim.world import World


@dataclass(frozen=True)
class FilteredForecaster:
    """The forecaster `under` it, with each forecast changed by `seen`. Learning is that of `under`."""

    under: Forecaster
    seen: Callable[[Question, Forecast], Forecast]

    def signature(self, arrival: JobArrival) -> str:
        """As `under` does."""
        return self.under.signature(arrival)

    def answer(self, questions: Iterable[Question]) -> Mapping[Question, Forecast]:
        """The forecasts of `under`, each changed by `seen`."""
        return {question: self.seen(question, found) for question, found in self.under.answer(questions).items()}

    def learn(self, attempt: SimulatedAttempt, now: float) -> bool:
        """As `under` does."""
        return self.under.learn(attempt, now)

    def watch(self, running: Iterable[SimulatedAttempt]) -> bool:
        """As `under` does."""
        return self.under.watch(running)

    def train(self, now: float) -> TrainingResult | None:
        """As `under` does."""
        return self.under.train(now)


@dataclass(frozen=True)
class NeedsKnown:
    """The true needs of each job and costs of each pair; durations as `under` predicts them."""

    under: Forecaster
    truth: Oracle
    own: dict[str, str] = field(default_factory=dict)
    """The signature that a job has in `under`, by its signature here."""

    def signature(self, arrival: JobArrival) -> str:
        """One for each job, since each one's memory is known."""
        signature = self.truth.signature(arrival)
        self.own[signature] = self.under.signature(arrival)
        return signature

    def answer(self, questions: Iterable[Question]) -> Mapping[Question, Forecast]:
        """The true forecasts, with the durations of `under`."""
        asked = {question: question._replace(signature=self.own[question.signature]) for question in questions}
        truth, predicted = self.truth.answer(asked), self.under.answer(asked.values())
        return {question: _with_durations(truth[question], predicted[below]) for question, below in asked.items()}

    def learn(self, attempt: SimulatedAttempt, now: float) -> bool:
        """As `under` does."""
        return self.under.learn(attempt, now)

    def watch(self, running: Iterable[SimulatedAttempt]) -> bool:
        """As `under` does."""
        return self.under.watch(running)

    def train(self, now: float) -> TrainingResult | None:
        """As `under` does."""
        return self.under.train(now)


# (newcomer's kind, resident's kind) -> a penalty of the pair, 0 for none; None keeps the two apart.
Rule = Callable[[str, str], float | None]


def any_two(newcomer: str, resident: str) -> float | None:  # noqa: ARG001 - it is a rule
    """Any two may share, without penalty."""
    return 0.0


def by_rule(rule: Rule, memory: Callable[[str], int]) -> Callable[[Forecaster], Forecaster]:
    """A view for rivals that let two kinds share by `rule` and by memory only.

    `memory` gives the bytes that each kind needs, so a kind needs no first run alone. Durations stay as predicted.
    """

    def seen(question: Question, found: Forecast) -> Forecast:
        needs = memory(question.kind)
        pairs = tuple(_judged(beside, rule(question.kind, beside)) for beside in question.beside)
        return replace(
            found,
            peak_utilization_pct=0.0,
            expected_utilization_pct=None,
            peak_memory_bytes=needs,
            upper_memory_bytes=needs,
            expected_slowdown=None,
            upper_slowdown=None,
            pairs=pairs,
            pairs_known=False,
        )

    return lambda forecaster: FilteredForecaster(forecaster, seen)


def memory_of(world: World) -> Callable[[str], int]:
    """The true memory of each kind in bytes; a third of the smallest device in worlds without memory."""
    third = min(device.total_memory for device in world.devices) // 3

    def memory(kind: str) -> int:
        found = world.workload(kind).memory_bytes
        return third if found is None else found

    return memory


def utilization_of(world: World) -> Callable[[str], float]:
    """The true utilisation of each kind alone in percent, as if each had been measured before."""
    return lambda kind: world.workload(kind).utilization_pct


def _with_durations(known: Forecast, predicted: Forecast) -> Forecast:
    return replace(known, duration_p50_s=predicted.duration_p50_s, duration_p90_s=predicted.duration_p90_s)


def _judged(beside: str, penalty: float | None) -> PairCost:
    """The penalty as a slowdown, so that devices with the least penalty are tried first. The evidence RULE exempts it from
    budgets.
    """
    cost = None if penalty is None else 1.0 + penalty
    return PairCost(
        KindId(beside), newcomer=cost, newcomer_upper=None, resident=cost, resident_upper=None,
        unsafe=penalty is None, evidence=RULE,
    )  # fmt: skip
