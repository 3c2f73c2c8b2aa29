"""When a rate may be believed: how much of the beginning is warm-up, and how tight the rest is. Pure.

Arrives: marks of a step counter, each a moment (seconds of any steady clock) with the steps counted by then. Leaves: rates of
windows, the first window that belongs to the steady state, and a mean with its 95% half-width.

The end of the warm-up is where the mean of what follows has the least standard error (MSER: White 1997, An effective
truncation heuristic for bias reduction in simulation output). It is sought in the first half: a least at the end of that half
means that the rate still drifts. Neighbouring windows are alike (a garbage collection, another frequency), so the half-width is
that of as many independent ones as their first autocorrelation leaves: n (1 - r) / (1 + r).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, stdev
from typing import NamedTuple

from gpuq.learn.statistics import student_quantile

_FEWEST = 6
# Student's t at 97.5% with 1 to 3 degrees of freedom, where the expansion of `student_quantile` is off by more than 1%.
_SMALL_T = {1: 12.706, 2: 4.303, 3: 3.182}


class Mark(NamedTuple):
    """A moment, and how many steps had been counted by then."""

    at: float
    steps: int


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean, its 95% half-width as a share of it (None from a single value), and of how many values."""

    mean: float
    half_width: float | None
    values: int

    def tight(self, wanted: float) -> bool:
        """Whether the half-width is known, and at most this share of the mean."""
        return self.half_width is not None and self.half_width <= wanted


@dataclass(frozen=True, slots=True)
class Steady:
    """A rate in its steady state: steps per second over all of it, its interval, and when the steady state began."""

    rate: float
    interval: Interval
    since: float


def rate_between(marks: Sequence[Mark], begin: float, end: float) -> tuple[float, int] | None:
    """Steps per second from the first to the last step seen in this time, and how many steps; None without two marks."""
    inside = [mark for mark in marks if begin <= mark.at <= end]
    if len(inside) < 2 or inside[-1].at <= inside[0].at or inside[-1].steps <= inside[0].steps:
        return None
    steps = inside[-1].steps - inside[0].steps
    return steps / (inside[-1].at - inside[0].at), steps


def windows(marks: Sequence[Mark], window_s: float) -> list[tuple[float, float]]:
    """(beginning, rate) of windows that run from one seen step to another, each at least `window_s` long."""
    found = []
    first = marks[0] if marks else None
    for mark in marks:
        if first is not None and mark.at - first.at >= window_s and mark.steps > first.steps:
            found.append((first.at, (mark.steps - first.steps) / (mark.at - first.at)))
            first = mark
    return found


def warm_up(rates: Sequence[float]) -> int | None:
    """How many of these windows are warm-up; None where the rate still drifts, or there are too few to tell."""
    if len(rates) < _FEWEST:
        return None
    last = len(rates) // 2
    errors = [_error(rates[cut:]) for cut in range(last + 1)]
    best = min(range(last + 1), key=lambda cut: errors[cut])
    return None if best == last and errors[best] < errors[0] else best


def steady(marks: Sequence[Mark], window_s: float) -> Steady | None:
    """The steady state of what was seen so far; None before there is one."""
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
    """What a job that never became steady did in the later half of its time, of which one mark at least was seen."""
    since = (marks[0].at + marks[-1].at) / 2
    found = rate_between(marks, since, math.inf)
    return None if found is None else Steady(found[0], Interval(found[0], None, 1), since)


def interval(values: Sequence[float], *, in_time: bool = False) -> Interval:
    """The mean of values above 0 and its half-width. `in_time`: they follow each other, so that neighbours may be alike."""
    mean = fmean(values)
    if len(values) < 2 or mean <= 0:
        return Interval(mean, None, len(values))
    independent = max(2.0, len(values) * _thinning(values, mean) if in_time else len(values))
    half = _student(round(independent) - 1) * stdev(values) / math.sqrt(independent)
    return Interval(mean, half / mean, len(values))


def ratio_interval(ratios: Iterable[float]) -> Interval:
    """The geometric mean of ratios, and its half-width: slowdowns are multiples."""
    logs = [math.log(ratio) for ratio in ratios]
    middle = math.exp(fmean(logs))
    if len(logs) < 2:
        return Interval(middle, None, len(logs))
    half = _student(len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
    return Interval(middle, math.expm1(half), len(logs))


def _student(freedom: int) -> float:
    return _SMALL_T.get(freedom) or student_quantile(0.975, freedom)


def _error(rates: Sequence[float]) -> float:
    """The squared standard error of their mean, as MSER takes it."""
    mean = fmean(rates)
    return math.fsum((rate - mean) ** 2 for rate in rates) / len(rates) ** 2


def _thinning(values: Sequence[float], mean: float) -> float:
    squares = math.fsum((value - mean) ** 2 for value in values)
    if squares <= 0:
        return 1.0
    products = math.fsum((one - mean) * (next_ - mean) for one, next_ in pairwise(values))
    alike = min(0.99, max(0.0, products / squares))
    return (1 - alike) / (1 + alike)
