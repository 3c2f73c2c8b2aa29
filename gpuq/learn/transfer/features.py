"""A profile as a row of numbers: how the step's time divides among groups of ops, and how long each group takes.

Time of ops that are near no group counts as idle time, so that a row always adds up to the step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuq.learn.transfer.names import Groups, place
from gpuq.learn.transfer.profile import IDLE, OpProfile

Rows = np.ndarray[tuple[int, int], np.dtype[np.float64]]
Column = np.ndarray[tuple[int], np.dtype[np.float64]]

# A twentieth of a millisecond, the cost of a few launches: differences below it are noise.
LEAST_MS = 0.05


def op_ms(profiles: Sequence[OpProfile], step_s: Sequence[float], groups: Groups) -> Rows:
    """Milliseconds of a step per group, idle time last: shares of the profiled window times the step. (n, groups + 1)."""
    found = np.zeros((len(profiles), len(groups) + 1))
    placed: dict[str, int] = {IDLE: len(groups)}
    for row, profile in enumerate(profiles):
        for name, share in profile.shares().items():
            if name not in placed:
                column = place(name, groups)
                placed[name] = len(groups) if column is None else column
            found[row, placed[name]] += share
    return np.asarray(found * 1000.0 * np.asarray(step_s, dtype=np.float64)[:, None])


def plain(times_ms: Rows, step_s: Column) -> Rows:
    """The notebook's features: the step's milliseconds and each group's. (n, groups + 2)."""
    return np.column_stack([1000.0 * step_s, times_ms])


def scaled(times_ms: Rows, step_s: Column) -> Rows:
    """Log of the step, roots of the shares, logs of the times, from which ratios follow. (n, 2 groups + 3)."""
    step_ms = 1000.0 * step_s[:, None]
    return np.column_stack([np.log(step_ms), np.sqrt(times_ms / step_ms), np.log(times_ms + LEAST_MS)])
