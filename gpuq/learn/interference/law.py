"""The contention law: how much two jobs slow each other by what their utilisations alone imply.

A device can serve two jobs that need shares `u_a` and `u_b` of its time at full speed as long as `u_a + u_b` is at most 1.
Beyond that each takes `u_a + u_b` times as long (work is conserved, neither job is preferred). So

    log slowdown = max(0, log(u_a + u_b)),

its corner rounded by a softplus of width `SHARPNESS`, since the peaks of two jobs do not always coincide. It has no fitted
parameter. What is learned is added to its logarithm before the corner (see `learned`).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Two jobs of 50% each are slowed by 7% on this rounded corner.
SHARPNESS = 0.1
# Drivers round small utilisations down to 0.
_LEAST_SHARE = 0.01


def slack(utilization_a: Floats, utilization_b: Floats) -> Floats:
    """The law's logarithm before the corner. Utilisations in percent; 0 where either is unknown (nan)."""
    together = np.maximum((utilization_a + utilization_b) / 100, _LEAST_SHARE)
    return np.asarray(np.where(np.isnan(together), 0.0, np.log(together)))


def corner(value: Floats, sharpness: float) -> tuple[Floats, Floats]:
    """(log slowdown, its slope) at this slack: a softplus of width `sharpness`."""
    scaled = value / sharpness
    return (
        np.asarray(sharpness * np.logaddexp(0.0, scaled)),
        np.asarray(1 / (1 + np.exp(-np.clip(scaled, -40, 40)))),
    )


def logs(utilization_a: Floats, utilization_b: Floats) -> Floats:
    """The law's log slowdown of each pair. Utilisations in percent; nan where either is unknown."""
    found = corner(slack(utilization_a, utilization_b), SHARPNESS)[0]
    return np.asarray(np.where(np.isnan(utilization_a + utilization_b), np.nan, found))


def slowdown(utilization_a: float | None, utilization_b: float | None) -> float | None:
    """The law's slowdown of one pair, the same for both jobs. Utilisations in percent; None where either is unknown."""
    if utilization_a is None or utilization_b is None:
        return None
    value = math.log(max((utilization_a + utilization_b) / 100, _LEAST_SHARE))
    return math.exp(SHARPNESS * math.log1p(math.exp(min(40.0, value / SHARPNESS))))
