"""What sharing costs a pair of kinds, from what it cost before.

Arrives: the history and two kinds on one type of device. Leaves: the expected slowdown of each beside the other with an
upper bound, None where nobody measured it. A kind's slowdown beside another is the same whichever of the two came
first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median

from gpuq.core.forecast import PairCost
from gpuq.core.job import KindId
from gpuq.learn.bounds import REPEATED_RUN, Prior, predictive_bound
from gpuq.learn.history import History, Slowdown

# Half the width of a 95% interval in standard deviations.
_HALF_WIDTH = 1.96


def pair_cost(history: History, kind: str, beside: KindId, device_type: str, quantile: float) -> PairCost:
    """What is known of `kind` as a newcomer beside `beside`, and of `beside` as its resident."""
    newcomer, newcomer_upper = estimate(history.slowdowns(kind, beside, device_type), quantile)
    resident, resident_upper = estimate(history.slowdowns(beside, kind, device_type), quantile)
    return PairCost(
        beside=beside,
        newcomer=newcomer,
        newcomer_upper=newcomer_upper,
        resident=resident,
        resident_upper=resident_upper,
        unsafe=history.unsafe(kind, beside, device_type),
    )


def estimate(measured: Sequence[Slowdown], quantile: float) -> tuple[float | None, float | None]:
    """(expected, upper): the median, and the predictive bound whose prior spread is the measured intervals' own."""
    if not measured:
        return None, None
    values = [slowdown.value for slowdown in measured]
    point = median(values)
    prior = Prior(fmean(_spread(slowdown) for slowdown in measured))
    return point, max(point, predictive_bound(values, quantile, prior))


def combined(costs: Sequence[PairCost]) -> tuple[float | None, float | None]:
    """The newcomer's (expected, upper) slowdown beside all of them: the product.

    None if any is unknown, or none is there.
    """
    points = [cost.newcomer for cost in costs if cost.newcomer is not None]
    uppers = [cost.newcomer_upper for cost in costs if cost.newcomer_upper is not None]
    return (
        math.prod(points) if costs and len(points) == len(costs) else None,
        math.prod(uppers) if costs and len(uppers) == len(costs) else None,
    )


def _spread(slowdown: Slowdown) -> float:
    """The standard deviation of the log of one measurement; that of a repeated run where no interval came with it."""
    if slowdown.high is None or slowdown.high <= slowdown.value:
        return REPEATED_RUN.scale
    return math.log(slowdown.high / slowdown.value) / _HALF_WIDTH
