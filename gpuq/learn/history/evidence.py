"""How much a difference on few attempts says: exact tests, so that three rows neither damn nor clear a model.

Arrives: counts, or paired differences. Leaves: the probability of the like, or more, by chance alone. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from statistics import NormalDist

# Up to this many differences all signs are tried (4,096); beyond, the sum is as good as normal.
_EXACT = 12


def at_least(count: int, of: int, probability: float) -> float:
    """P(X >= count) for X binomial: how likely that many failures are if each comes with this probability."""
    if count <= 0:
        return 1.0
    if not 0.0 < probability < 1.0:
        return float(probability >= 1.0)
    logs = (math.log(probability), math.log1p(-probability))
    terms = (_log_choose(of, k) + k * logs[0] + (of - k) * logs[1] for k in range(count, of + 1))
    return min(1.0, math.fsum(map(math.exp, terms)))


def larger(differences: Sequence[float]) -> float:
    """P(a sum as large) if each difference were as likely below zero as above: a one-sided sign-flip test.

    1.0 for a sum of zero or less; never below 2 ** -n, so few differences cannot show much.
    """
    moved = [difference for difference in differences if difference]
    total = math.fsum(moved)
    if total <= 0:
        return 1.0
    if len(moved) > _EXACT:
        return 1 - NormalDist().cdf(total / math.sqrt(math.fsum(d * d for d in moved)))
    almost = total - 1e-12 * math.fsum(map(abs, moved))
    sums = (
        math.fsum(sign * d for sign, d in zip(signs, moved, strict=True))
        for signs in product((1, -1), repeat=len(moved))
    )
    return sum(one >= almost for one in sums) / float(2 ** len(moved))


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
