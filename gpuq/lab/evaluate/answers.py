"""The interface of a method, gpuq's own or a baseline: what it is asked and what it returns.

A method is a function from what was measured to a function from questions to answers. Arrays are as long as the questions; NaN
is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gpuq.lab.evaluate.figures import Flags, Numbers
from gpuq.lab.measured import SingleMeasurement
from gpuq.learn.statistics import conformal_rank

# The slowdown budget under which decisions to share are judged: the default of admission.
BUDGET = 1.15
QUANTILE = 0.95


@dataclass(frozen=True, slots=True)
class Directed:
    """One measured slowdown: of `job` beside `beside`, each with what was measured of it alone."""

    job: SingleMeasurement
    beside: SingleMeasurement
    slowdown: float


@dataclass(frozen=True, slots=True)
class Expected:
    """Expected values, and the bounds that 95% should stay under."""

    point: Numbers
    upper: Numbers


@dataclass(frozen=True, slots=True)
class Slowdowns:
    """Expected slowdowns with their bounds. `risk` orders the pairs; `admits`: the method would let the pair share, None where
    it has no rule of its own and admits what it expects to keep the budget.
    """

    point: Numbers
    upper: Numbers
    risk: Numbers
    admits: Flags | None = None

    @classmethod
    def of(cls, point: Numbers, upper: Numbers) -> Slowdowns:
        """The answer of a method that orders and admits by its expected slowdowns."""
        return cls(point, upper, point)

    def admitted(self, budget: float) -> Flags:
        """Whether the method would let each pair share at this budget."""
        return self.point < budget if self.admits is None else self.admits


AnswerPairs = Callable[[Sequence[tuple[SingleMeasurement, SingleMeasurement]]], Slowdowns]
AnswerSingles = Callable[[Sequence[SingleMeasurement]], Expected]
FitPairs = Callable[[Sequence[Directed]], AnswerPairs]
# The target of each single that is known, in the singles' order.
FitSingles = Callable[[Sequence[SingleMeasurement], Numbers], AnswerSingles]


def unknown(count: int) -> Numbers:
    """An array of unknown values."""
    return np.full(count, np.nan)


def ratio_bound(expected: Numbers, measured: Numbers, quantile: float = QUANTILE) -> float:
    """The factor on an expected value under which the next measured one stays with this probability (split conformal).

    The largest ratio where there are too few values for that, 1 where there are none.
    """
    fine = expected > 0
    ratios = np.sort(measured[fine] / expected[fine])
    if not len(ratios):
        return 1.0
    rank = conformal_rank(len(ratios), quantile)
    return float(ratios[-1 if rank is None else rank - 1])
