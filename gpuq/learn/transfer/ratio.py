"""One ratio per pair of device types, from kinds that ran on both: what is known of a job without a profile.

A kind's pace on a type is its seconds per step alone, else the duration of its runs alone. Only runs of the same script and
batch size are compared. Every kind counts once, and the median decides.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import permutations
from statistics import median
from typing import Annotated

import msgspec
from msgspec import Meta

from gpuq.learn.history.history import History, MeasuredRun
from gpuq.learn.history.job_features import JobFeatures
from gpuq.learn.statistics import student_quantile

# On PROFET's workloads the logs of target / anchor spread by 0.09, 0.15 and 0.28 around their median, from a T4 to an M60,
# a K80 and a V100: their root mean square. Worth five kinds, as the other priors are.
_SPREAD = 0.19
_WEIGHT = 5.0
# Cap of ratio and margin: a factor of 100.
_MOST_LOG = math.log(100.0)

Work = tuple[str | None, float | None]
Paces = Mapping[Work, tuple[float | None, float | None]]


class Ratio(msgspec.Struct, frozen=True):
    """Log of pace on the target / on the anchor, the log margin of its upper bound, and the number of kinds behind it."""

    log: Annotated[float, Meta(ge=-20, le=20)]
    margin: Annotated[float, Meta(ge=0, le=20)]
    kinds: Annotated[int, Meta(ge=1)]


def ratios(history: History, quantile: float) -> dict[str, dict[str, Ratio]]:
    """Anchor -> target -> ratio, for each pair of types on which some kind did the same work."""
    by_kind: dict[str, dict[str, Paces]] = defaultdict(dict)
    for kind, device_type in history.kinds():
        by_kind[kind][device_type] = paces(history.runs(kind, device_type))
    logs: dict[tuple[str, str], list[float]] = defaultdict(list)
    for types in by_kind.values():
        for anchor, target in permutations(sorted(types), 2):
            found = _log_ratio(types[anchor], types[target])
            if found is not None:
                logs[anchor, target].append(found)
    ratios_by_anchor: dict[str, dict[str, Ratio]] = {}
    for (anchor, target), values in sorted(logs.items()):
        ratios_by_anchor.setdefault(anchor, {})[target] = pooled(values, quantile)
    return ratios_by_anchor


def pooled(logs: Sequence[float], quantile: float) -> Ratio:
    """The median, and Student's predictive margin around it; the spread is shrunk to its prior where kinds are few."""
    n, centre = len(logs), median(logs)
    freedom = _WEIGHT + n - 1
    squares = math.fsum((value - centre) ** 2 for value in logs)
    scale = math.sqrt((_WEIGHT * _SPREAD**2 + squares) / freedom)
    wide = student_quantile(quantile, freedom) * scale * math.sqrt(1 + 1 / n)
    return Ratio(max(-_MOST_LOG, min(_MOST_LOG, centre)), min(_MOST_LOG, wide), n)


def paces(runs: Sequence[MeasuredRun]) -> dict[Work, tuple[float | None, float | None]]:
    """(script, batch size) -> median (seconds per step alone, seconds per run alone) of its finished runs."""
    grouped: dict[Work, list[MeasuredRun]] = defaultdict(list)
    for run in runs:
        if run.whole:
            grouped[work(run.known)].append(run)
    found: dict[Work, tuple[float | None, float | None]] = {}
    for key, same in grouped.items():
        steps = [1.0 / run.alone_rate for run in same if run.alone_rate]
        durations = [run.duration_s for run in same if run.duration_s and not run.shared]
        found[key] = (median(steps) if steps else None, median(durations) if durations else None)
    return found


def work(known: JobFeatures) -> Work:
    """What must be equal for two runs to be compared: script and batch size."""
    return known.script_sha256, known.batch_log2


def _log_ratio(anchor: Paces, target: Paces) -> float | None:
    """The median over the work done on both types; from steps if possible, since durations may be of other lengths."""
    for which in (0, 1):
        pairs = [(anchor[key][which], target[key][which]) for key in anchor if key in target]
        logs = [math.log(there / here) for here, there in pairs if here and there]
        if logs:
            return median(logs)
    return None
