"""Fits `Interference` to measured pairs: the parameters by their evidence, the bounds by what is left out in turn.

Profiles and directed slowdowns on one type of device with one way of sharing give an `Interference`. Only this module uses
scipy, inside the functions that need it. The same pairs give the same result.

- Parameters: the maximum of the Laplace evidence (Rasmussen and Williams 2006, sections 3.4 and 5.5.1; the Hessian of Gauss
  and Newton) times a weak prior on each, over at most `TUNED_ON` pairs.
- Factors: split conformal by tier. A fifth of the pairs, then all pairs of a fifth of the kinds, then of the models, are left
  out and predicted from the rest; the score is (log measured - log expected) / doubt. Parameters are not tuned again for
  that, which makes the scores a little too small; taking the wider factor of kinds and models makes up for some of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from statistics import fmean
from typing import Any

import msgspec
import numpy as np

from gpuq.learn.interference.law import Floats, corner, slack
from gpuq.learn.interference.learned import Factors, Interference, Shape, blend, covariance, similarity
from gpuq.learn.interference.profile import Profile, SimilarityInput, distances, informative_inputs, numbers, same_kind
from gpuq.learn.statistics import conformal_rank

Slowdowns = Mapping[tuple[str, str], Sequence[float]]
"""(kind, kind beside it) -> its measured slowdowns, oldest first."""

MOST_PAIRS = 600
"""Directed pairs that are used: the last ones given. Work grows with the third power of their number."""
TUNED_ON = 150
_STEPS = 110
_FOLDS = 5
_NEWTON_STEPS = 20
# A noise below half of the 4% by which repeated runs differ would be overfitting.
_LEAST_NOISE = 0.02
# Medians and spreads of the parameters' priors: (log, log, log, log, atanh, logit, log), then of each log reach.
_MIDDLE = (-2.5, -1.2, -1.0, -1.0, 0.0, 2.0, -1.5)
_SPREAD = (1.0, 1.0, 1.0, 1.0, 0.7, 1.5, 1.0)
_REACH_MIDDLE, _REACH_SPREAD = 0.5, 1.0


class _Table:
    """The pairs as arrays. `kinds` are those that occur in them; `law` is the law's logarithm of each pair."""

    def __init__(self, profiles: Mapping[str, Profile], slowdowns: Slowdowns) -> None:
        self.pairs = list(slowdowns)
        names = sorted({name for pair in self.pairs for name in pair})
        self.kinds = [profiles.get(name, Profile(name)) for name in names]
        index = {name: i for i, name in enumerate(names)}
        self.a = np.array([index[a] for a, _ in self.pairs], dtype=np.intp)
        self.b = np.array([index[b] for _, b in self.pairs], dtype=np.intp)
        self.y = np.array([fmean(map(math.log, slowdowns[pair])) for pair in self.pairs], dtype=np.float64)
        utilization = numbers(self.kinds)[:, 0]
        self.law = slack(utilization[self.a], utilization[self.b])


def fit(profiles: Mapping[str, Profile], slowdowns: Slowdowns, quantile: float) -> Interference | None:
    """The fitted part for these pairs; None without any usable pair.

    `slowdowns` are directed: what the first kind was slowed beside the second. Bounds are calibrated to hold with probability
    `quantile`. A kind without a profile is known by its pairs alone.
    """
    possible = {
        pair: [value for value in values if math.isfinite(value) and value > 0] for pair, values in slowdowns.items()
    }
    usable = dict([(pair, values) for pair, values in possible.items() if values][-MOST_PAIRS:])
    if not usable:
        return None
    shape = tune(profiles, usable)
    return msgspec.structs.replace(
        fit_shaped(profiles, usable, shape), factors=calibrate(profiles, usable, shape, quantile)
    )


def tune(profiles: Mapping[str, Profile], slowdowns: Slowdowns) -> Shape:
    """The parameters with the highest evidence times prior (Nelder-Mead, since the evidence has no cheap gradient)."""
    from scipy.optimize import minimize  # a tenth of a second, only when training

    inputs = informative_inputs(_Table(profiles, slowdowns).kinds)
    pairs = list(slowdowns)
    drawn = sorted(np.random.default_rng(0).permutation(len(pairs))[:TUNED_ON].tolist())
    table = _Table(profiles, {pairs[i]: slowdowns[pairs[i]] for i in drawn})
    same, far = same_kind(table.kinds, table.kinds), distances(table.kinds, table.kinds, inputs)
    middle = np.array([*_MIDDLE, *[_REACH_MIDDLE] * len(inputs)])
    spread = np.array([*_SPREAD, *[_REACH_SPREAD] * len(inputs)])

    def loss(point: Floats) -> float:
        if np.any(np.abs(point - middle) > 6 * spread):
            return math.inf
        shape = _shape(point, inputs)
        evidence = _posterior(table, _among(table, blend(same, far, shape), shape), shape)[1]
        return float(0.5 * np.sum(((point - middle) / spread) ** 2) - evidence)

    simplex = np.vstack([middle, middle + 0.6 * np.eye(len(middle))])
    options = {"maxfev": _STEPS, "xatol": 0.05, "fatol": 0.1, "initial_simplex": simplex}
    return _shape(minimize(loss, middle, method="Nelder-Mead", options=options).x, inputs)


def fit_shaped(profiles: Mapping[str, Profile], slowdowns: Slowdowns, shape: Shape) -> Interference:
    """The fitted part under given parameters; its factors are the defaults."""
    table = _Table(profiles, slowdowns)
    weights, _ = _posterior(table, _among(table, similarity(table.kinds, table.kinds, shape), shape), shape)
    pairs = zip(table.a.tolist(), table.b.tolist(), weights.tolist(), strict=True)
    return Interference(
        kinds=tuple(table.kinds),
        pairs=tuple((a, b, round(weight, 9)) for a, b, weight in pairs),
        shape=shape,
    )


def calibrate(profiles: Mapping[str, Profile], slowdowns: Slowdowns, shape: Shape, quantile: float) -> Factors:
    """The factor of each tier, from pairs, kinds and models left out in turn; of the last two the wider."""
    model_of = {kind: profile.model for kind, profile in profiles.items()}
    # Both directions of a pair are left out together; a kind or a model with all of its pairs.
    pairs, kinds, models = (
        _scores(profiles, slowdowns, shape, groups)
        for groups in (
            {pair: {tuple(sorted(pair))} for pair in slowdowns},
            {pair: set(pair) for pair in slowdowns},
            {pair: {model_of.get(kind) for kind in pair} - {None} for pair in slowdowns},
        )
    )
    default = Factors()
    return Factors(
        both=_factor(pairs[2], quantile, default.both),
        one=max(_factor(found[1], quantile, default.one) for found in (kinds, models) if found[1] or found is kinds),
        neither=max(
            _factor(found[0], quantile, default.neither) for found in (kinds, models) if found[0] or found is kinds
        ),
    )


def _scores(
    profiles: Mapping[str, Profile],
    slowdowns: Slowdowns,
    shape: Shape,
    groups: Mapping[tuple[str, str], Set[Any]],
) -> dict[int, list[float]]:
    """(log measured - log expected) / doubt of what was left out, by how many of its two kinds were still known.

    `groups` names the groups of each pair. A fifth of the groups is left out each time, with all pairs that are in one of them.
    """
    scores: dict[int, list[float]] = {0: [], 1: [], 2: []}
    names = sorted({name for found in groups.values() for name in found})
    drawn = np.random.default_rng(0).permutation(len(names)).tolist()
    for start in range(min(_FOLDS, len(names))):
        out = {names[i] for i in drawn[start::_FOLDS]}
        rest = {pair: values for pair, values in slowdowns.items() if not groups[pair] & out}
        left_out = [pair for pair in slowdowns if groups[pair] & out]
        if not rest or not left_out:
            continue
        learned = fit_shaped(profiles, rest, shape)
        ones, besides = ([profiles.get(pair[side], Profile(pair[side])) for pair in left_out] for side in (0, 1))
        logs, doubt = learned.logs(ones, besides)
        for one, beside, log, width, pair in zip(ones, besides, logs, doubt, left_out, strict=True):
            score = (fmean(map(math.log, slowdowns[pair])) - log) / width
            scores[learned.known(one, beside)].append(float(score))
    return scores


def _factor(scores: Sequence[float], quantile: float, default: float) -> float:
    """The conformal quantile of the scores; from too few of them, at least the default."""
    ordered = sorted(scores)
    rank = conformal_rank(len(ordered), quantile)
    value = ordered[rank - 1] if rank is not None else max([default, *ordered])
    return round(max(0.0, value), 6)


def _among(table: _Table, kinds: Floats, shape: Shape) -> Floats:
    return covariance(shape, kinds, table.a, table.b, table.a, table.b)


def _posterior(table: _Table, prior: Floats, shape: Shape) -> tuple[Floats, float]:
    """(weight of each pair at the mode, log evidence up to a constant), by Newton's method with step halving."""
    count, variance = len(table.y), shape.noise**2
    identity: Floats = np.eye(count)

    def loss(weights: Floats, added: Floats) -> float:
        logs, _ = corner(table.law + added, shape.sharpness)
        return float(0.5 * np.sum((table.y - logs) ** 2) / variance + 0.5 * weights @ added)

    weights: Floats = np.asarray(
        np.linalg.solve(prior + (variance + 0.01) * identity, table.y - table.law), dtype=np.float64
    )
    best = loss(weights, prior @ weights)
    for _ in range(_NEWTON_STEPS):
        # A full step (Rasmussen and Williams 2006, algorithm 3.1, the slope's square as the Hessian).
        added = prior @ weights
        logs, slope = corner(table.law + added, shape.sharpness)
        scale = slope / math.sqrt(variance)
        pull = scale**2 * added + slope * (table.y - logs) / variance
        system = identity + scale[:, None] * prior * scale
        step = pull - scale * np.linalg.solve(system, scale * (prior @ pull)) - weights
        length, gain = 1.0, -1.0
        # The softplus corner makes the objective non-quadratic: a full Newton step may overshoot, so it is halved until it helps.
        while gain < 0 and length > 1e-3:
            tried = weights + length * step
            reached = loss(tried, prior @ tried)
            gain, length = best - reached, length / 2
        if gain < 0:
            break
        weights, best = tried, reached
        if gain < 1e-3:
            break
    # Laplace: half the log determinant of I + W^1/2 K W^1/2 at the mode (Rasmussen and Williams 2006, equation 3.32).
    _, slope = corner(table.law + prior @ weights, shape.sharpness)
    scale = slope / shape.noise
    determinant = np.linalg.slogdet(identity + scale[:, None] * prior * scale)[1]
    return weights, float(-best - count * math.log(shape.noise) - 0.5 * determinant)


def _shape(point: Floats, inputs: tuple[SimilarityInput, ...]) -> Shape:
    noise, sharpness, sensitivity, pressure, tie, alike, pair, *reaches = (float(value) for value in point)
    return Shape(
        noise=max(_LEAST_NOISE, math.exp(noise)),
        sharpness=math.exp(sharpness),
        sensitivity=math.exp(sensitivity),
        pressure=math.exp(pressure),
        tie=math.tanh(tie),
        alike=1 / (1 + math.exp(-alike)),
        pair=math.exp(pair),
        inputs=inputs,
        reaches=tuple(math.exp(reach) for reach in reaches),
    )
