"""Bounds and tests from few measurements, with the standard library alone, so that the daemon needs no scipy.

An upper bound of work that is the same again follows one of two rules, by how many values there are:

- enough (n >= q / (1 - q), 19 for q = 95%): the k-th smallest, k = ceil(q (n + 1)). It holds with probability q at least for
  exchangeable values of any distribution (order statistics; the same as split conformal prediction).
- fewer: the larger of the highest value and the predictive bound of a log-normal whose spread has a scaled inverse chi-squared
  prior (Gelman et al., Bayesian Data Analysis, section 3.3): exp(mean + t * s * sqrt(1 + 1/n)), s^2 = (v s0^2 + sum of squares)
  / (v + n - 1), t the Student quantile with v + n - 1 degrees of freedom.

The priors (s0, v = 5) come from measured repeats: a run repeated differs by 4% median and 22% at the 99th percentile, and
memory carried to the next doubling of the batch by 4.3% median and 12.8% at the 90th. Student's t with 5 degrees of freedom
fits both pairs of figures, with s0 = 0.039 and 0.06.

The tests say how likely a difference is by chance. They are exact, so that three attempts neither condemn nor clear a model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from statistics import NormalDist

# A log needs something above zero; one byte, one hundredth of a percent.
_SMALLEST = 0.01
# Up to this many differences all signs are tried (4,096 sums); beyond, their sum is close to normal.
_EXACT = 12


@dataclass(frozen=True)
class Prior:
    """How much values of one group are expected to differ: the standard deviation of their logs, and the number of observations
    that this expectation counts for."""

    scale: float
    weight: float = 5.0


# A run repeated differs by more than this in one of a hundred.
FAR_ABOVE = 1.22
REPEATED_RUN = Prior(0.039)
SAME_KIND_MEMORY = Prior(0.06)
# How far the peak of a whole run may lie above the level that its memory has kept for the later half of its life so far.
# Twice that of a repeated run: the bound is 1.41 times the level. Had memory kept to a level below peak / 1.41 for half of a
# run or more, its mean would be under 0.86 of its peak. That is so for 4% of 189 instances of over an hour in Alibaba's
# trace `gpu-v2020`, whose means include the start (median 0.99).
RUNNING_MEMORY = Prior(0.12)
# An edit may do anything that is not read in the script; not measured, so as wide as the widest of one kind.
EDITED_SCRIPT_MEMORY = Prior(0.12)
# How long a run takes again: 5% median, start-up and other users' disk traffic included.
REPEATED_DURATION = Prior(0.07)
# Peak memory predicted for a model from its family was off by 18% median: 0.18 / 0.727 (the t quantile at 75%).
SAME_CLUSTER_MEMORY = Prior(0.25)


def upper_bound(values: Sequence[float], quantile: float, prior: Prior) -> float:
    """The bound that the next value stays under with probability `quantile`. Needs at least one value, none below 0."""
    ordered = sorted(values)
    rank = conformal_rank(len(ordered), quantile)
    if rank is not None:
        return ordered[rank - 1]
    return max(ordered[-1], predictive_bound(ordered, quantile, prior))


def bound_of_modes(values: Sequence[float], quantile: float, prior: Prior) -> float:
    """As `upper_bound`, for values that should be of one size: where some are far above that bound, the bound of these alone.

    Runs of one kind may need either of two amounts, the higher one rarely or since lately. Then the values are not exchangeable,
    and the one in twenty that a bound may miss would be missed by far.
    """
    bound = upper_bound(values, quantile, prior)
    above = [value for value in values if value > FAR_ABOVE * bound]
    return upper_bound(above, quantile, prior) if above else bound


def predictive_bound(values: Sequence[float], quantile: float, prior: Prior) -> float:
    """The log-normal predictive bound of the next value (see the module docstring). Needs at least one value."""
    logs = [math.log(max(value, _SMALLEST)) for value in values]
    n = len(logs)
    mean = math.fsum(logs) / n
    freedom = prior.weight + n - 1
    squares = math.fsum((value - mean) ** 2 for value in logs)
    scale = math.sqrt((prior.weight * prior.scale**2 + squares) / freedom)
    return math.exp(mean + student_quantile(quantile, freedom) * scale * math.sqrt(1 + 1 / n))


def conformal_rank(n: int, quantile: float) -> int | None:
    """The 1-based rank, among n sorted values, of the one that bounds the next value with probability `quantile`.

    None if n is too small for any of them to.
    """
    # Rounded first: 0.95 * 20 is 19.000000000000004 or so in binary, and would ask for one value more.
    rank = math.ceil(round(quantile * (n + 1), 9))
    return rank if 1 <= rank <= n else None


def order_statistic(values: Sequence[float], quantile: float) -> float:
    """The ceil(quantile * n)-th smallest value: one of the measured values, not interpolated, never below the quantile."""
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


def binomial_tail(count: int, of: int, probability: float) -> float:
    """P(X >= count) for X ~ Binomial(of, probability)."""
    if count <= 0:
        return 1.0
    if not 0.0 < probability < 1.0:
        return float(probability >= 1.0)
    logs = (math.log(probability), math.log1p(-probability))
    # Factorials as logs of the gamma function: those of some hundred attempts are beyond floating point.
    terms = (
        (math.lgamma(of + 1) - math.lgamma(k + 1) - math.lgamma(of - k + 1)) + k * logs[0] + (of - k) * logs[1]
        for k in range(count, of + 1)
    )
    return min(1.0, math.fsum(map(math.exp, terms)))


def sign_flip_p_value(differences: Sequence[float]) -> float:
    """One-sided p-value of the sign-flip (Fisher randomisation) test that paired differences are symmetric about zero.

    1.0 for a sum of zero or less; never below 2 ** -n, so few differences cannot be significant. Beyond `_EXACT` differences by
    the normal approximation of the sum.
    """
    moved = [difference for difference in differences if difference]
    total = math.fsum(moved)
    if total <= 0:
        return 1.0
    if len(moved) > _EXACT:
        return 1 - NormalDist().cdf(total / math.sqrt(math.fsum(d * d for d in moved)))
    # Sums that differ by rounding alone count as equal.
    almost = total - 1e-12 * math.fsum(map(abs, moved))
    sums = (
        math.fsum(sign * d for sign, d in zip(signs, moved, strict=True))
        for signs in product((1, -1), repeat=len(moved))
    )
    return sum(one >= almost for one in sums) / float(2 ** len(moved))
