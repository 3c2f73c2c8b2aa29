"""Carries a kind's own peak memory from measured batch sizes to one that was not measured.

Only the batch size is looked at: the caller allows for other changes. Two sizes or more show the memory per sample: the
median of the slopes between them (Theil and Sen), from the largest size on. Over SchedTune's rows that is off by 4% median at
the next doubling; in proportion to the batch would be off by 25%. One size shows no slope: then memory grows at most in
proportion, since weights and context do not grow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, pairwise
from statistics import median

from gpuq.learn.statistics import REPEATED_RUN, Prior, predictive_bound


def extend(
    batches: Sequence[float], memories: Sequence[float], wanted: float, quantile: float, prior: Prior
) -> tuple[float, float]:
    """(point, upper bound) at batch size `wanted`, in the unit of `memories`. Needs one measurement; sizes above 0.

    `prior` is how far a peak at the next doubling may lie from the line, in logs; it widens with each further doubling. Below
    the smallest measured size the peak at that size is used.
    """
    sizes, peaks = _highest(batches, memories)
    if wanted <= sizes[-1]:
        point = _between(sizes, peaks, wanted)
        return point, predictive_bound([point], quantile, prior)
    growth = wanted / sizes[-1]
    most = peaks[-1] * growth
    point = min(most, peaks[-1] + _slope(sizes, peaks) * (wanted - sizes[-1])) if len(sizes) > 1 else most
    farther = Prior(prior.scale * max(1.0, math.log2(growth)), prior.weight)
    upper = predictive_bound([point], quantile, farther)
    return point, max(point, min(upper, predictive_bound([most], quantile, REPEATED_RUN))) if len(sizes) > 1 else upper


def _highest(batches: Sequence[float], memories: Sequence[float]) -> tuple[list[float], list[float]]:
    """Sizes in ascending order, each with the highest peak of it or of a smaller one: more samples never need less."""
    highest: dict[float, float] = {}
    for batch, memory in sorted(zip(batches, memories, strict=True)):
        highest[batch] = max(memory, highest.get(batch, 0.0))
    sizes, peaks = list(highest), list(highest.values())
    return sizes, [max(peaks[: place + 1]) for place in range(len(peaks))]


def _between(sizes: Sequence[float], peaks: Sequence[float], wanted: float) -> float:
    for (low, below), (high, above) in pairwise(zip(sizes, peaks, strict=True)):
        if low <= wanted <= high:
            return below + (above - below) * (wanted - low) / (high - low)
    return peaks[0] if wanted < sizes[0] else peaks[-1]


def _slope(sizes: Sequence[float], peaks: Sequence[float]) -> float:
    points = zip(sizes, peaks, strict=True)
    return median((above - below) / (high - low) for (low, below), (high, above) in combinations(points, 2))
