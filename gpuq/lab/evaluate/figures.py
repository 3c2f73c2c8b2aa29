"""The figures that forecasts are judged by, as plain functions of arrays.

Expected and measured values are equally long and have no unknown ones. A figure is None where there is nothing to judge, or
where it is not defined.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuq.learn.statistics import binomial_tail

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]


def mean_absolute_pct(expected: Numbers, measured: Numbers) -> float | None:
    """The mean of |expected - measured| / measured, in percent. Measured values are above 0."""
    return _mean(100 * np.abs(expected - measured) / measured)


def median_absolute_pct(expected: Numbers, measured: Numbers) -> float | None:
    """The median of |expected - measured| / measured, in percent. Measured values are above 0."""
    return float(np.median(100 * np.abs(expected - measured) / measured)) if len(measured) else None


def mean_absolute(expected: Numbers, measured: Numbers) -> float | None:
    """The mean of |expected - measured|, in the values' own unit."""
    return _mean(np.abs(expected - measured))


def auc(score: Numbers, good: Flags) -> float | None:
    """The probability that a good one scores above one that is not, ties counting half (Mann and Whitney's U / n1 n0).

    None where all are good, or none is.
    """
    above, below = score[good], np.sort(score[~good])
    if not len(above) or not len(below):
        return None
    wins = np.searchsorted(below, above, side="left")
    ties = np.searchsorted(below, above, side="right") - wins
    return float((wins.sum() + ties.sum() / 2) / (len(above) * len(below)))


def precision(admitted: Flags, good: Flags) -> float | None:
    """The share of the admitted that were good. None where nothing was admitted."""
    return _mean(good[admitted].astype(float))


def recall(admitted: Flags, good: Flags) -> float | None:
    """The share of the good that were admitted. None where none was good."""
    return _mean(admitted[good].astype(float))


def coverage_pct(upper: Numbers, measured: Numbers) -> float | None:
    """Percent that stayed at or under their bound."""
    return _mean(100.0 * (measured <= upper))


def failures_chance(upper: Numbers, measured: Numbers, of: Sequence[Hashable], quantile: float) -> float | None:
    """The probability that bounds which hold with this probability fail as often as these, or more often (exact binomial).

    Rows with an equal entry in `of` are one measured value under several bounds: it counts once, by the share that held it.
    """
    held: dict[Hashable, list[bool]] = defaultdict(list)
    for key, inside in zip(of, (measured <= upper).tolist(), strict=True):
        held[key].append(inside)
    if not held:
        return None
    failed = round(len(held) - math.fsum(fmean(values) for values in held.values()))
    return binomial_tail(failed, len(held), 1 - quantile)


def overshoot(upper: Numbers, measured: Numbers) -> float | None:
    """The mean of bound / measured: how much room the bounds waste. Measured values of 0 are left out."""
    above = measured > 0
    return _mean(upper[above] / measured[above])


def far_below_pct(expected: Numbers, measured: Numbers, by: float = 0.1) -> float | None:
    """Percent whose expected value was below the measured one by more than `by` of the measured one."""
    return _mean(100.0 * (expected < measured * (1 - by)))


def _mean(values: NDArray[np.floating[Any]]) -> float | None:
    return float(values.mean()) if len(values) else None
