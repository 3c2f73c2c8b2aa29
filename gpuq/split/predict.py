"""Which share of a launch the first device should take: by own history, a probe, or a model.

The order is by what is exact: a launch that ran here is known, a probe measures this launch, and trees guess from others
that ran on the same devices. A share of other devices by itself says little (in public data it is 19.5 points off), but the
launches that ran on both show how far off, and so let the rest of them count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpuq.errors import Failure
from gpuq.split.history import LaunchHistory, LaunchRecord
from gpuq.split.launch import KernelLaunch, OpenClDevice
from gpuq.split.parts import run_parts
from gpuq.split.verdict import SplitVerdict

_LEAST_PROGRAMS = 20
"""Own programs below which trees say less than nothing."""
_HISTORY_POINTS = 0.03
LEAST_SHARE = 0.02
"""What a device gets of a launch that only trees were asked about: it costs the other 2% of its time, and both are measured."""
Floats = NDArray[np.float64]
KnownLaunch = tuple[Floats, float, str]
"""The features, the best share and the program of a launch."""


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
        places = run_parts(launch, verdict, devices, limit_s=limit_s, only_probe=True).places
        samples = probed_shares(*places[:2])
        if len(samples):
            return _prediction(best_share(samples), samples, f"a probe on copies, at {len(places[0])} places")
    except Failure:
        pass
    others = history.by_devices(len(devices))
    own = _by_launch(others.pop(entry.devices, []))
    if len({program for *_, program in own.values()}) >= _LEAST_PROGRAMS:
        training = pooled(own, map(_by_launch, others.values()))
        (found,) = model_shares(*training, np.append(np.log1p(entry.features), 0.0)[None])
        share, over_best = found.best()
        beside = len(training.shares) - len(own)
        more = f", and {beside} on others" if beside else ""
        return SharePrediction(
            share, found.interval, over_best, f"a model of {len(own)} other launches on these devices{more}"
        )
    return _prediction(0.5, np.array([0.0, 0.5, 1.0]), "none")


def probed_shares(first: Sequence[tuple[float, float]], second: Sequence[tuple[float, float]]) -> Floats:
    """The first device's share by the relative speed at each place that both have probed, as (part of the launch, speed).

    The first takes the front of the launch. What groups cost there and at the back is the first device's, between its places in a
    straight line; so a launch that becomes dearer gives it more than its part of the speeds.
    """
    if not first or not second:
        return np.array([])
    at = np.linspace(0, 1, 1001)
    places, speeds = np.array(first).T
    cost = np.concatenate([[0], np.cumsum(np.interp(at[1:] - 0.0005, places, 1 / speeds))])
    ratios = speeds[: len(second)] / np.array([speed for _, speed in second])[: len(first)]
    # Both end at once where cost before / speed of the first = cost after / speed of the second.
    return np.asarray(np.interp(cost[-1] * ratios / (1 + ratios), cost, at), dtype=float)


def _prediction(share: float, samples: Floats, evidence: str) -> SharePrediction:
    low, high = np.quantile(samples, [0.05, 0.95])
    return SharePrediction(share, (float(low), float(high)), float(np.exp(log_loss(share, samples).mean())), evidence)


def log_loss(share: float | Floats, best: Floats) -> Floats:
    """log(time / ideal) at `share` where `best` is the share at which both devices end at once.

    With times of 1/b' and 1/b alone, b' = 1 - b: time is the longer of share / b and (1 - share) / (1 - b), of the ideal 1.
    """
    clipped = np.clip(best, 1e-3, 1 - 1e-3)
    return np.asarray(np.log(np.maximum(share / clipped, (1 - share) / (1 - clipped))), dtype=float)


def best_share(samples: Floats, weights: Floats | None = None, least: float = 0.0) -> float:
    """The share with the least expected log time, over samples of where the best one may be; at least `least` for each device."""
    grid = np.linspace(least, 1 - least, 101)
    losses = np.average(log_loss(grid[:, None], samples), axis=1, weights=weights)
    return float(grid[int(np.argmin(losses))])


@dataclass(frozen=True, slots=True)
class ModelShares:
    """Where the best share of an unseen launch may be: samples with weights that add up to 1, and the 90% interval."""

    samples: Floats
    weights: Floats
    interval: tuple[float, float]

    def best(self) -> tuple[float, float]:
        """(the share with the least expected log time, the expected time there relative to the ideal)."""
        share = best_share(self.samples, self.weights, LEAST_SHARE)
        return share, float(np.exp(np.average(log_loss(share, self.samples), weights=self.weights)))


class KnownLaunches(NamedTuple):
    """Known launches as `model_shares` takes them: a row of features for each, the shares, the programs."""

    features: Floats
    shares: Floats
    programs: Sequence[str]


def _by_launch(records: Sequence[LaunchRecord]) -> dict[tuple[object, ...], KnownLaunch]:
    """The launches, by what is the same of each on all devices."""
    return {
        (one.program, one.features): (np.log1p(one.features), share, one.program)
        for one in records
        if (share := one.share()) is not None
    }


def pooled(own: Mapping[Any, KnownLaunch], others: Iterable[Mapping[Any, KnownLaunch]]) -> KnownLaunches:
    """Launches on these devices, and on other sets of devices: each mapping is by what names a launch on all of them.

    The shares of another set are moved by the mean difference (of logits) of the launches that ran on both; without any of
    these, the set is left out. A last column of the features is 0 for these devices and 1 for others.
    """
    rows = [(np.append(features, 0.0), share, program) for features, share, program in own.values()]
    for known in others:
        differences = [_logit(own[name][1]) - _logit(share) for name, (_, share, _) in known.items() if name in own]
        if differences:
            shift = np.mean(differences)
            rows += [
                (np.append(features, 1.0), float(1 / (1 + np.exp(-_logit(share) - shift))), program)
                for features, share, program in known.values()
            ]
    features, shares, programs = zip(*rows, strict=True)
    return KnownLaunches(np.array(features), np.array(shares), programs)


def model_shares(
    features: Floats, shares: Floats, programs: Sequence[str], asked: Floats, *, trees: int = 100, seed: int = 0
) -> list[ModelShares]:
    """For each row asked, a launch of a program that is none of `programs`, where its best share may be.

    Extra-trees predict the logit of the share. Half of the weight has the training rows in the leaves of the row asked: they show
    what similar launches took. They do not show how wrong trees are about a program that they never saw, so the other half has
    the residuals of training rows whose whole program was left out, added to the prediction; the interval comes from these alone.
    A program with n rows weighs as sqrt(n) rows there, so that one program with a hundred launches does not outweigh all others.
    """
    from sklearn.model_selection import GroupKFold

    logits = _logit(shares)
    groups, counts = np.unique(programs, return_inverse=True, return_counts=True)[1:]
    held_out = np.zeros(len(shares))
    for training, left in GroupKFold(min(5, len(counts))).split(features, logits, groups):
        held_out[left] = _trees(trees, seed).fit(features[training], logits[training]).predict(features[left])
    forest = _trees(trees, seed).fit(features, logits)
    known, predicted = forest.apply(features), forest.predict(asked)
    by_program = counts[groups].astype(np.float64) ** -0.5
    residuals: Floats = by_program / by_program.sum()
    found = []
    for row, logit in zip(forest.apply(asked), predicted, strict=True):
        with_row = known == row
        in_leaves = (with_row / with_row.sum(axis=0)).mean(axis=1)
        shifted = 1 / (1 + np.exp(held_out - logits - logit))
        samples, weights = np.concatenate([shares, shifted]), np.concatenate([in_leaves, residuals]) / 2
        found.append(ModelShares(samples, weights, weighted_interval(shifted, residuals, 0.9)))
    return found


def _trees(trees: int, seed: int) -> Any:
    from sklearn.ensemble import ExtraTreesRegressor

    return ExtraTreesRegressor(trees, max_features=0.5, random_state=seed, n_jobs=1)


def _logit(shares: Floats | float) -> Floats:
    clipped = np.clip(shares, 1e-3, 1 - 1e-3)
    return np.asarray(np.log(clipped / (1 - clipped)), dtype=float)


def weighted_interval(samples: Floats, weights: Floats, coverage: float) -> tuple[float, float]:
    """The middle of the samples that holds `coverage` of their weight."""
    if not 0 < coverage < 1:
        raise ValueError(f"coverage {coverage} is not between 0 and 1")
    order = np.argsort(samples)
    below = np.cumsum(weights[order]) / weights.sum()
    low, high = np.searchsorted(below, [(1 - coverage) / 2, (1 + coverage) / 2])
    return float(samples[order[low]]), float(samples[order[min(high, len(samples) - 1)]])
