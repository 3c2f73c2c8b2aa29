"""Carries a kind's own peak memory from measured batch sizes to one that was not measured.

Only the batch size is looked at: the caller allows for other changes. Two sizes or more show the memory per sample: the
median of the slopes between them (Theil and Sen), from the largest size on. Over SchedTune's rows that is off by 4% median at
the next doubling; in proportion to the batch would be off by 25%. One size shows no slope: then memory grows at most in
proportion, since weights and context do not grow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, combinations
from statistics import median

import numpy as np

from gpuq.learn.statistics import REPEATED_RUN, Prior, predictive_bound


def extend(
    batches: Sequence[float], memories: Sequence[float], wanted: float, quantile: float, prior: Prior
) -> tuple[float, float]:
    """(point, upper bound) at batch size `wanted`, in the unit of `memories`. Needs one measurement; sizes above 0.

    `prior` is how far a peak at the next doubling may lie from the line, in logs; it widens with each further doubling. Below
    the smallest measured size the peak at that size is used.
    """
    highest = dict(sorted(zip(batches, memories, strict=True)))
    # More samples never need less: the highest peak of a size or of a smaller one.
    sizes, peaks = list(highest), list(accumulate(highest.values(), max))
    if wanted <= sizes[-1]:
        point = float(np.interp(wanted, sizes, peaks))
        return point, predictive_bound([point], quantile, prior)
    growth = wanted / sizes[-1]
    most = peaks[-1] * growth
    farther = Prior(prior.scale * max(1.0, math.log2(growth)), prior.weight)
    if len(sizes) == 1:
        return most, predictive_bound([most], quantile, farther)
    points = zip(sizes, peaks, strict=True)
    # The median of all slopes between two sizes: one odd peak does not tilt the line (Theil and Sen).
    slope = median((above - below) / (high - low) for (low, below), (high, above) in combinations(points, 2))
    point = min(most, peaks[-1] + slope * (wanted - sizes[-1]))
    upper = min(predictive_bound([point], quantile, farther), predictive_bound([most], quantile, REPEATED_RUN))
    return point, max(point, upper)
