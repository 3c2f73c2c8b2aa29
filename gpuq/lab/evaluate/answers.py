"""What every method, gpuq's own and each baseline, is asked and gives back: the seam the harness judges through.

A method is a function from what was measured to a function from questions to answers. Arrays are as long as the
questions; NaN is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gpuq.lab.evaluate.figures import Flags, Numbers
from gpuq.lab.measured import Single
from gpuq.learn.statistics import conformal_rank

# The budget the issue of sharing is judged under: the worse of the two may take 15% longer.
BUDGET = 1.15
QUANTILE = 0.95


@dataclass(frozen=True, slots=True)
class Directed:
    """One measured slowdown: that of `job` beside `beside`, each with what was measured of it alone."""

    job: Single
    beside: Single
    slowdown: float


@dataclass(frozen=True, slots=True)
class Expected:
    """Values expected, and the bound that 95% stay under."""

    point: Numbers
    upper: Numbers


@dataclass(frozen=True, slots=True)
class Slowdowns:
    """Slowdowns expected, with their bounds; `risk` orders them from the least to the most, `admits` says under budget."""

    point: Numbers
    upper: Numbers
    risk: Numbers
    admits: Flags

    @classmethod
    def of(cls, point: Numbers, upper: Numbers, budget: float = BUDGET) -> Slowdowns:
        """Of a method that orders and admits by the slowdown it expects."""
        return cls(point, upper, point, point < budget)


AnswerPairs = Callable[[Sequence[tuple[Single, Single]]], Slowdowns]
AnswerSingles = Callable[[Sequence[Single]], Expected]
FitPairs = Callable[[Sequence[Directed]], AnswerPairs]
# The target of each single that is known, in the singles' order.
FitSingles = Callable[[Sequence[Single], Numbers], AnswerSingles]


def unknown(count: int) -> Numbers:
    """So many unknown values."""
    return np.full(count, np.nan)


def ratio_bound(expected: Numbers, measured: Numbers, quantile: float = QUANTILE) -> float:
    """What to multiply an expected value with so that the next stays under it with that probability (split conformal).

    Where there are too few for that, the largest ratio; 1 where there are none.
    """
    fine = expected > 0
    ratios = np.sort(measured[fine] / expected[fine])
    if not len(ratios):
        return 1.0
    rank = conformal_rank(len(ratios), quantile)
    return float(ratios[-1 if rank is None else rank - 1])
