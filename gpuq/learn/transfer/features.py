"""A profile as a row of numbers: how the step's time divides among groups of ops, and how long each group takes.

Groups have op names that are spelt alike, so that ops of a job not seen before can be placed. The method is the notebook's:
Levenshtein distance, average linkage, and groups closer than `CUT` are one. scipy is needed only where groups are made. Time of
ops that are near no group counts as idle time, so that a row always adds up to the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import numpy as np

from gpuq.learn.transfer.profile import IDLE, OpProfile

Groups = tuple[tuple[str, ...], ...]
Rows = np.ndarray[tuple[int, int], np.dtype[np.float64]]
Column = np.ndarray[tuple[int], np.dtype[np.float64]]

# A twentieth of a millisecond, the cost of a few launches: differences below it are noise.
LEAST_MS = 0.05
# Single-character edits. The notebook cuts at 10; on PROFET's nine pairs of types with other anchors than the T4, models left
# out, 4 has an error of 7.9% against 8.3%. Those pairs share the workloads with the T4's three, which the benchmark judges.
CUT = 4.0


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


def scaled(times_ms: Rows, step_s: Column) -> Rows:
    """Log of the step, roots of the shares, logs of the times, from which ratios follow. (n, 2 groups + 3)."""
    step_ms = 1000.0 * step_s[:, None]
    return np.column_stack([np.log(step_ms), np.sqrt(times_ms / step_ms), np.log(times_ms + LEAST_MS)])


def groups(names: Sequence[str], cut: float = CUT) -> Groups:
    """The names grouped; each name once, in an order that does not depend on theirs."""
    ordered = sorted(set(names))
    if len(ordered) < 2:
        return tuple((name,) for name in ordered)
    from scipy.cluster.hierarchy import fcluster, linkage  # for those who train only

    upper = [float(distance(one, other)) for i, one in enumerate(ordered) for other in ordered[i + 1 :]]
    labels = fcluster(linkage(upper, "average"), cut, criterion="distance")
    found: dict[int, list[str]] = {}
    for name, label in zip(ordered, labels, strict=True):
        found.setdefault(int(label), []).append(name)
    return tuple(sorted(tuple(members) for members in found.values()))


def place(name: str, among: Groups, cut: float = CUT) -> int | None:
    """The index of the group that contains this name, or is nearest on average; None where all are farther than `cut`."""
    known = next((index for index, members in enumerate(among) if name in members), None)
    if known is not None:
        return known
    best, nearest = None, cut
    for index, members in enumerate(among):
        apart = fmean(distance(name, member) for member in members)
        if apart <= nearest:
            best, nearest = index, apart
    return best


def distance(one: str, other: str) -> int:
    """Levenshtein distance: the least number of characters to insert, delete or replace."""
    before = list(range(len(other) + 1))
    for i, left in enumerate(one, start=1):
        row = [i]
        for j, right in enumerate(other, start=1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (left != right)))
        before = row
    return before[-1]
