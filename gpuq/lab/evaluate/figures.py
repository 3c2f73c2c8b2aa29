"""The figures that forecasts are judged by, as plain functions of arrays.

Expected and measured values are equally long and have no unknown ones. A figure is None where there is nothing to judge, or
where it is not defined.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]


def mean_absolute_pct(expected: Numbers, measured: Numbers) -> float | None:
    """The mean of |expected - measured| / measured, in percent. Measured values are above 0."""
    return _mean(100 * np.abs(expected - measured) / measured)


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


def overshoot(upper: Numbers, measured: Numbers) -> float | None:
    """The mean of bound / measured: how much room the bounds waste. Measured values of 0 are left out."""
    above = measured > 0
    return _mean(upper[above] / measured[above])


def far_below_pct(expected: Numbers, measured: Numbers, by: float = 0.1) -> float | None:
    """Percent whose expected value was below the measured one by more than `by` of the measured one."""
    return _mean(100.0 * (expected < measured * (1 - by)))


def _mean(values: NDArray[np.floating[Any]]) -> float | None:
    return float(values.mean()) if len(values) else None
