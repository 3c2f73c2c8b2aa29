"""Which share of a launch the first device should take: by own history, a probe, or a model.

The order is by what is exact: a launch that ran here is known, a probe measures this launch, and trees guess from others
that ran on the same devices. Shares of other devices are not used: in public data they are 19.5 points off.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuq.errors import Failure
from gpuq.split.history import LaunchHistory
from gpuq.split.launch import KernelLaunch, OpenClDevice
from gpuq.split.parts import run_parts
from gpuq.split.verdict import SplitVerdict

_LEAST_PROGRAMS = 20
"""Own programs below which trees say less than nothing."""
_HISTORY_POINTS = 0.03
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SharePrediction:
    """`share` of the first device, its 90% interval, the expected time relative to that of the best share, and the evidence."""

    share: float
    interval: tuple[float, float]
    over_best: float
    evidence: str


def predict(
    launch: KernelLaunch,
    verdict: SplitVerdict,
    devices: Sequence[OpenClDevice],
    history: LaunchHistory,
    *,
    limit_s: float,
) -> SharePrediction:
    """Predict by the best evidence there is. A probe runs the launch's first chunks on copies. Raises Failure and BadInput."""
    entry = history.find(launch, devices)
    if (known := entry.share()) is not None:
        samples = np.clip([known - _HISTORY_POINTS, known, known + _HISTORY_POINTS], 0, 1)
        return _prediction(known, samples, f"own history: {entry.runs} runs of this launch")
    try:
        places = run_parts(launch, verdict, devices, limit_s=limit_s, fill=0, only_probe=True).places
        samples = np.array([one / (one + other) for one in places[0] for other in places[1]])
        if len(samples):
            return _prediction(best_share(samples), samples, f"a probe on copies, at {len(places[0])} places")
    except Failure:
        pass
    others = history.all(devices)
    if len({one.program for one in others}) >= _LEAST_PROGRAMS:
        features = np.log1p(np.array([one.features for one in others]))
        shares = np.array([one.share() for one in others])
        samples = leaf_shares(features, shares, np.log1p(np.array([entry.features])))[0]
        return _prediction(best_share(samples), samples, f"a model of {len(others)} other launches on these devices")
    return _prediction(0.5, np.array([0.0, 0.5, 1.0]), "none")


def _prediction(share: float, samples: Floats, evidence: str) -> SharePrediction:
    low, high = np.quantile(samples, [0.05, 0.95])
    return SharePrediction(share, (float(low), float(high)), float(np.exp(log_loss(share, samples).mean())), evidence)


def log_loss(share: float, best: Floats) -> Floats:
    """log(time / ideal) at `share` where `best` is the share at which both devices end at once.

    With times of 1/b' and 1/b alone, b' = 1 - b: time is the longer of share / b and (1 - share) / (1 - b), of the ideal 1.
    """
    clipped = np.clip(best, 1e-3, 1 - 1e-3)
    return np.asarray(np.log(np.maximum(share / clipped, (1 - share) / (1 - clipped))), dtype=float)


def best_share(samples: Floats) -> float:
    """The share with the least expected log time, over samples of where the best one may be."""
    grid = np.linspace(0, 1, 101)
    return float(grid[int(np.argmin([log_loss(one, samples).mean() for one in grid]))])


def leaf_shares(
    features: Floats, shares: Floats, asked: Floats, *, trees: int = 300, least: int = 3, seed: int = 0
) -> list[Floats]:
    """For each row asked, the training shares in the leaves that extra-trees bring it to: samples of its share."""
    from sklearn.ensemble import ExtraTreesRegressor

    forest: Any = ExtraTreesRegressor(trees, min_samples_leaf=least, max_features=0.5, random_state=seed, n_jobs=1)
    forest.fit(features, shares)
    known, wanted = forest.apply(features), forest.apply(asked)
    return [np.concatenate([shares[known[:, tree] == row[tree]] for tree in range(trees)]) for row in wanted]


def interval(samples: Floats, coverage: float) -> tuple[float, float]:
    """The middle of the samples that holds `coverage` of them."""
    if not 0 < coverage < 1 or not math.isfinite(coverage):
        raise ValueError(f"coverage {coverage} is not between 0 and 1")
    low, high = np.quantile(samples, [(1 - coverage) / 2, (1 + coverage) / 2])
    return float(low), float(high)
