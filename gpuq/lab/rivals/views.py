"""What a rival makes of the forecasts: it looks at less than gpuq, or trusts more.

A view stands between the forecasts and the core (`Candidate.wrap_forecaster`). What a rival admits beside whom is said in the
forecast of the pair: unsafe where it would not, and nothing against it where it would. So the core needs no branch for any
rival.
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
    """The beliefs under it, each forecast as `seen`. Learning goes on underneath."""

    under: Forecaster
    seen: Callable[[Question, Forecast], Forecast]

    def signature(self, arrival: JobArrival) -> str:
        """As underneath."""
        return self.under.signature(arrival)

    def answer(self, questions: Iterable[Question]) -> Mapping[Question, Forecast]:
        """The forecasts underneath, as this one sees them."""
        return {question: self.seen(question, found) for question, found in self.under.answer(questions).items()}

    def learn(self, attempt: SimulatedAttempt, now: float) -> bool:
        """As underneath."""
        return self.under.learn(attempt, now)

    def train(self, now: float) -> TrainingResult | None:
        """As underneath."""
        return self.under.train(now)


@dataclass(frozen=True)
class NeedsKnown:
    """What each job uses and what each pair costs as it is in truth; durations as they are foretold underneath."""

    under: Forecaster
    truth: Oracle
    own: dict[str, str] = field(default_factory=dict)
    """The signature that a job has underneath, by the one it has here."""

    def signature(self, arrival: JobArrival) -> str:
        """One for each job, since each one's memory is known."""
        signature = self.truth.signature(arrival)
        self.own[signature] = self.under.signature(arrival)
        return signature

    def answer(self, questions: Iterable[Question]) -> Mapping[Question, Forecast]:
        """The truth, save durations."""
        asked = {question: replace(question, signature=self.own[question.signature]) for question in questions}
        truth, foretold = self.truth.answer(asked), self.under.answer(asked.values())
        return {question: _lasting(truth[question], foretold[below]) for question, below in asked.items()}

    def learn(self, attempt: SimulatedAttempt, now: float) -> bool:
        """As underneath."""
        return self.under.learn(attempt, now)

    def train(self, now: float) -> TrainingResult | None:
        """As underneath."""
        return self.under.train(now)


# From the newcomer's kind and the resident's: how bad it holds the two together to be, 0 is not at all; None keeps them apart.
Rule = Callable[[str, str], float | None]


def any_two(newcomer: str, resident: str) -> float | None:  # noqa: ARG001 - it is a rule
    """Blind to what sharing costs."""
    return 0.0


def by_rule(rule: Rule, memory: Callable[[str], int]) -> Callable[[Forecaster], Forecaster]:
    """A rival that lets two kinds share by a rule of its own and by memory, whatever else is foretold.

    It knows the `memory` of each kind in bytes, so it needs no first run. Durations stay as foretold.
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
    """The true memory of each kind; a third of the smallest device in worlds that do not say."""
    third = min(device.total_memory for device in world.devices) // 3

    def memory(kind: str) -> int:
        found = world.workload(kind).memory_bytes
        return third if found is None else found

    return memory


def utilization_of(world: World) -> Callable[[str], float]:
    """The true utilisation of each kind alone, in percent: as if each had been measured before."""
    return lambda kind: world.workload(kind).utilization_pct


def _lasting(known: Forecast, foretold: Forecast) -> Forecast:
    return replace(known, duration_p50_s=foretold.duration_p50_s, duration_p90_s=foretold.duration_p90_s)


def _judged(beside: str, badness: float | None) -> PairCost:
    """The badness is told as a slowdown, so that the least bad place is tried first; as a mere rule no budget is held to it."""
    cost = None if badness is None else 1.0 + badness
    return PairCost(
        KindId(beside), newcomer=cost, newcomer_upper=None, resident=cost, resident_upper=None,
        unsafe=badness is None, evidence=RULE,
    )  # fmt: skip
