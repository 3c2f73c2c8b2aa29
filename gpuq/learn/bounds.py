"""Upper bounds from few measurements.

Arrives: measured values of work that is the same again. Leaves: a bound that the next one stays under with the wanted
probability. Two rules, by how many values there are:

- enough (n >= q / (1 - q), 19 for 95%): the k-th smallest, k = ceil(q (n + 1)). For exchangeable values it holds with
  probability q at least, whatever their distribution (order statistics; the same as split conformal prediction).
- fewer: the larger of the highest value and the predictive bound of a log-normal with a prior on its spread:
  exp(mean + t * s * sqrt(1 + 1/n)), s^2 = (v s0^2 + sum of squares) / (v + n - 1), t the Student quantile with
  v + n - 1 degrees of freedom.

The priors (s0, v = 5) come from measured repeats: a run repeated differs by 4% median and 22% at the 99th percentile,
and memory carried to the next doubling of the batch by 4.3% median and 12.8% at the 90th. Student's t with 5 degrees of
freedom fits both pairs of figures, with s0 = 0.039 and 0.06.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

# A log needs something above zero; one byte, one hundredth of a percent.
_SMALLEST = 0.01


@dataclass(frozen=True)
class Prior:
    """How much values of one group differ before we have seen any.

    The scale of their logs, and how many values that is worth.
    """

    scale: float
    weight: float = 5.0


REPEATED_RUN = Prior(0.039)
SAME_KIND_MEMORY = Prior(0.06)
# How long a run takes again: 5% median, start-up and other users' disk traffic included.
REPEATED_DURATION = Prior(0.07)
# Peak memory foretold for a model from its family was off by 18% median: 0.18 / 0.727 (the t quantile at 75%).
SAME_CLUSTER_MEMORY = Prior(0.25)


def upper_bound(values: Sequence[float], quantile: float, prior: Prior) -> float:
    """The bound that the next value stays under with probability `quantile`. Needs at least one value, none below 0."""
    ordered = sorted(values)
    rank = conformal_rank(len(ordered), quantile)
    if rank is not None:
        return ordered[rank - 1]
    return max(ordered[-1], predictive_bound(ordered, quantile, prior))


def predictive_bound(values: Sequence[float], quantile: float, prior: Prior) -> float:
    """The log-normal predictive bound; see the module's own words."""
    logs = [math.log(max(value, _SMALLEST)) for value in values]
    n = len(logs)
    mean = math.fsum(logs) / n
    freedom = prior.weight + n - 1
    squares = math.fsum((value - mean) ** 2 for value in logs)
    scale = math.sqrt((prior.weight * prior.scale**2 + squares) / freedom)
    return math.exp(mean + student_quantile(quantile, freedom) * scale * math.sqrt(1 + 1 / n))


def conformal_rank(n: int, quantile: float) -> int | None:
    """Which of n values, smallest first, bounds the next with probability `quantile`.

    None if n is too small for that.
    """
    # Rounded first: 0.95 * 20 is 19.000000000000004 or so in binary, and would ask for one value more.
    rank = math.ceil(round(quantile * (n + 1), 9))
    return rank if 1 <= rank <= n else None


def order_statistic(values: Sequence[float], quantile: float) -> float:
    """The ceil(quantile * n)-th smallest value: a value that was really measured, never below the quantile."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(round(quantile * len(ordered), 9)) - 1)]


@lru_cache(maxsize=512)
def student_quantile(quantile: float, freedom: float) -> float:
    """Student's t quantile by the expansion in 1/freedom (Abramowitz and Stegun 26.7.5).

    Within 1% from 4 degrees on.
    """
    z = NormalDist().inv_cdf(quantile)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3
