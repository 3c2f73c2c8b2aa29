"""What the utilisations of two jobs say of their slowdowns where nothing else is known of pairs: the contention law.

`learn/interference/law.py` explains the law, and `risk.py` there the assumption. Here both are solved for the load, so that a
pair whose load is too high need not be asked about.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from math import exp, expm1, inf, log

from gpuq.core.state.forecast import BUDGETS, LEVELS

SHARPNESS = 0.1
"""The width of the softplus that rounds the law's corner. Two jobs of 50% each are slowed by 7% on it."""
RISK_OF_HALF = 0.1
"""The risk of a pair that uses up half of its budget by the law, where nothing was calibrated."""


@lru_cache(maxsize=1024)
def most_load(budget: float, risk: float) -> float:
    """The highest sum of two utilisations, in percent, at which a slowdown budget is exceeded with at most this risk."""
    allowed, known = bisect_right(LEVELS, risk) - 1, bisect_right(BUDGETS, budget) - 1
    if risk >= 1:
        return inf
    if allowed < 0 or known < 0:
        return 0.0
    half = log(BUDGETS[known]) / 2
    slowdown = half * LEVELS[allowed] / RISK_OF_HALF
    return 100 * exp(SHARPNESS * log(expm1(slowdown / SHARPNESS)))
