"""Warm-up and confidence of a rate, from the marks of a step counter; pure.

The end of the warm-up is the point from which the mean of what follows has the least standard error (MSER: White 1997, "An
effective truncation heuristic for bias reduction in simulation output"). It is sought in the first half of the windows; a
minimum at the end of that half means that the rate still drifts. Neighbouring windows are correlated (a garbage collection, a
change of frequency), so the half-width is that of n (1 - r) / (1 + r) independent windows, with r their first autocorrelation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, stdev
from typing import NamedTuple

_FEWEST = 6


class Mark(NamedTuple):
    """A time in seconds of any steady clock, and the steps counted by then."""

    at: float
    steps: int


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean, its 95% half-width as a share of the mean (None for a single value), and the number of values."""

    mean: float
    half_width: float | None
    values: int

    def tight(self, wanted: float) -> bool:
        """Whether the half-width is known and at most `wanted`, a share of the mean."""
        return self.half_width is not None and self.half_width <= wanted


@dataclass(frozen=True, slots=True)
class Steady:
    """A steady state: steps per second over all of it, its interval, and the time at which it began."""

    rate: float
    interval: Interval
    since: float


def rate_between(marks: Sequence[Mark], begin: float, end: float) -> tuple[float, int] | None:
    """(steps per second, steps) from the first to the last mark in this time; None without two marks."""
    inside = [mark for mark in marks if begin <= mark.at <= end]
    if len(inside) < 2 or inside[-1].at <= inside[0].at or inside[-1].steps <= inside[0].steps:
        return None
    steps = inside[-1].steps - inside[0].steps
    return steps / (inside[-1].at - inside[0].at), steps


def windows(marks: Sequence[Mark], window_s: float) -> list[tuple[float, float]]:
    """(start, rate) of consecutive windows from mark to mark, each at least `window_s` seconds long."""
    found = []
    first = marks[0] if marks else None
    for mark in marks:
        if first is not None and mark.at - first.at >= window_s and mark.steps > first.steps:
            found.append((first.at, (mark.steps - first.steps) / (mark.at - first.at)))
            first = mark
    return found


def warm_up(rates: Sequence[float]) -> int | None:
    """The number of windows that are warm-up; None where the rate still drifts or there are too few windows."""
    if len(rates) < _FEWEST:
        return None
    last = len(rates) // 2
    errors = []
    for cut in range(last + 1):
        mean = fmean(rates[cut:])
        # The squared standard error of the mean, as MSER defines it.
        errors.append(math.fsum((rate - mean) ** 2 for rate in rates[cut:]) / (len(rates) - cut) ** 2)
    best = min(range(last + 1), key=lambda cut: errors[cut])
    return None if best == last and errors[best] < errors[0] else best


def steady(marks: Sequence[Mark], window_s: float) -> Steady | None:
    """The steady state of the marks so far; None before there is one."""
    found = windows(marks, window_s)
    cut = warm_up([rate for _, rate in found])
    if cut is None:
        return None
    since = found[cut][0]
    whole = rate_between(marks, since, math.inf)
    if whole is None:
        return None
    return Steady(whole[0], interval([rate for _, rate in found[cut:]], in_time=True), since)


def later_half(marks: Sequence[Mark]) -> Steady | None:
    """The rate in the later half of the time, for a job that never became steady; None without two marks there."""
    since = (marks[0].at + marks[-1].at) / 2
    found = rate_between(marks, since, math.inf)
    return None if found is None else Steady(found[0], Interval(found[0], None, 1), since)


def interval(values: Sequence[float], *, in_time: bool = False) -> Interval:
    """The mean of values above 0 with its interval. `in_time`: the values are a time series, so neighbours may be
    correlated.
    """
    mean = fmean(values)
    if len(values) < 2 or mean <= 0:
        return Interval(mean, None, len(values))
    independent = max(2.0, len(values) * _independent_share(values, mean) if in_time else len(values))
    half = _student(round(independent) - 1) * stdev(values) / math.sqrt(independent)
    return Interval(mean, half / mean, len(values))


def ratio_interval(ratios: Iterable[float]) -> Interval:
    """The geometric mean of ratios such as slowdowns, with its interval."""
    logs = [math.log(ratio) for ratio in ratios]
    middle = math.exp(fmean(logs))
    if len(logs) < 2:
        return Interval(middle, None, len(logs))
    half = _student(len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
    return Interval(middle, math.expm1(half), len(logs))


def _student(freedom: int) -> float:
    """Student's t at 97.5%: half-widths are two-sided 95% ones."""
    from scipy.stats import t

    return float(t.ppf(0.975, freedom))


def _independent_share(values: Sequence[float], mean: float) -> float:
    squares = math.fsum((value - mean) ** 2 for value in values)
    if squares <= 0:
        return 1.0
    products = math.fsum((one - mean) * (next_ - mean) for one, next_ in pairwise(values))
    correlation = min(0.99, max(0.0, products / squares))
    return (1 - correlation) / (1 + correlation)
