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
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from itertools import combinations
from statistics import fmean
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import numpy as np

from gpuq.learn.interference.law import Floats, logs, slack
from gpuq.learn.interference.learned import (
    Admission,
    Factors,
    Interference,
    Shape,
    blend,
    covariance,
    response,
    similarity,
)
from gpuq.learn.interference.profile import (
    NUMBERS,
    Profile,
    SimilarityInput,
    distances,
    informative_inputs,
    numbers,
    same_kind,
)
from gpuq.learn.interference.risk import LeftOutPairs, calibration, law_calibration, strictest, with_law
from gpuq.learn.statistics import conformal_rank, student_quantile

Slowdowns = Mapping[tuple[str, str], Sequence[float]]
"""(kind, kind beside it) -> its measured slowdowns, oldest first."""

MOST_PAIRS = 2000
"""Directed pairs that are used. Work grows with the third power of their number: 1,626 take some 11 s of a core."""
TUNED_ON = 150
_STEPS = 110
# For so many the priors of the reaches were set.
_USUAL_INPUTS = 5
_FOLDS = 5
_MISFITS = (0.0, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5)
_ENOUGH_FOR_MISFIT = 20
_NEWTON_STEPS = 20
# A noise below half of the 4% by which repeated runs differ would be overfitting.
_LEAST_NOISE = 0.02
_SPREAD = (1.0, 1.0, 1.0, 1.0, 0.7, 1.5, 1.0)
_REACH_SPREAD = 1.0
# Of the log of a leak.
_LEAK, _LEAK_SPREAD = -2.5, 1.0
# So much higher the log evidence has to be with a leak: strong evidence by Kass and Raftery (1995).
_CLEARLY = 3.0


class Priors(NamedTuple):
    """What no fit decides: the medians of the parameters' priors (log noise, log sharpness, log sensitivity, log pressure, atanh
    tie, logit alike, log pair; then of each log reach), and what kinds may be compared by.

    `python -m benchmarks.learning unseen` chooses among several for each public table, by the other tables.
    """

    middle: tuple[float, ...] = (-2.5, -1.2, -1.0, -1.0, 0.0, 2.0, -1.5)
    reach: float = 0.5
    inputs: frozenset[str] = frozenset({"model", *NUMBERS})


PRIORS = Priors()


class LeftOut(NamedTuple):
    """One directed pair that was predicted from others: logs of slowdowns. `fold` numbers the part that was left out, `units` is
    what of the pair was in it: one or two kinds or models, or the pair itself. A kind beside itself has one row for both of its
    jobs: `apart` is how far the worse of the two lies above `measured`."""

    pair: tuple[str, str]
    fold: int
    expected: float
    doubt: float
    measured: float
    units: frozenset[Any]
    apart: float = 0.0


LeftOutRows = dict[int, list[LeftOut]]
"""How many of the two kinds were still known -> what was left out."""


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


def fit(
    profiles: Mapping[str, Profile], slowdowns: Slowdowns, quantile: float, priors: Priors = PRIORS
) -> Interference | None:
    """The fitted part for these pairs; None without any usable pair.

    `slowdowns` are directed: what the first kind was slowed beside the second. Bounds are calibrated to hold with probability
    `quantile`. A kind without a profile is known by its pairs alone.
    """
    possible = {
        pair: [value for value in values if math.isfinite(value) and value > 0] for pair, values in slowdowns.items()
    }
    chosen = _chosen({pair: values for pair, values in possible.items() if values})
    # Draws go by position, so the order in which pairs were given is not to count.
    usable = dict(sorted(chosen.items()))
    if not usable:
        return None
    shape = tune(profiles, usable, priors)
    factors, admission = calibrate(profiles, usable, shape, quantile)
    return msgspec.structs.replace(fit_shaped(profiles, usable, shape), factors=factors, admission=admission)


def _chosen(slowdowns: Slowdowns) -> Slowdowns:
    """At most `MOST_PAIRS` of the pairs, in their order: of each kind the last ones given, so that none is left without any. Both
    directions of a pair are kept, or neither, since the worse of the two decides."""
    if len(slowdowns) <= MOST_PAIRS:
        return slowdowns
    seen: Counter[str] = Counter()
    ranks: dict[frozenset[str], int] = {}
    for pair in map(frozenset, reversed(list(slowdowns))):
        if pair not in ranks:
            ranks[pair] = min(seen[kind] for kind in pair)
            seen.update(pair)
    kept: set[tuple[str, str]] = set()
    for pair in sorted(ranks, key=lambda pair: ranks[pair]):
        a, b = min(pair), max(pair)
        both = {(a, b), (b, a)} & slowdowns.keys()
        if len(kept) + len(both) <= MOST_PAIRS:
            kept |= both
    return {pair: values for pair, values in slowdowns.items() if pair in kept}


def tune(profiles: Mapping[str, Profile], slowdowns: Slowdowns, priors: Priors = PRIORS) -> Shape:
    """The parameters with the highest evidence times prior (Nelder-Mead, since the evidence has no cheap gradient).

    `Shape.leak` is 0 unless the evidence of another value is strong.
    """
    from scipy.optimize import minimize  # a tenth of a second, only when training

    found = informative_inputs(_Table(profiles, slowdowns).kinds)
    inputs = tuple(each for each in found if each.name in priors.inputs)
    pairs = list(slowdowns)
    drawn = sorted(np.random.default_rng(0).permutation(len(pairs))[:TUNED_ON].tolist())
    table = _Table(profiles, {pairs[i]: slowdowns[pairs[i]] for i in drawn})
    same, far = same_kind(table.kinds, table.kinds), distances(table.kinds, table.kinds, inputs)
    # Squared distances add up over inputs, so that with more than usual each has to reach further.
    reach = priors.reach + 0.5 * math.log(max(1.0, len(inputs) / _USUAL_INPUTS))
    middle = np.array([*priors.middle, *[reach] * len(inputs), _LEAK])
    spread = np.array([*_SPREAD, *[_REACH_SPREAD] * len(inputs), _LEAK_SPREAD])

    def loss(point: Floats) -> float:
        off = (point - middle[: len(point)]) / spread[: len(point)]
        if np.any(np.abs(off) > 6):
            return math.inf
        shape = _shape(point, inputs)
        evidence = _posterior(table, _among(table, blend(same, far, shape), shape), shape)[1]
        return float(0.5 * np.sum(off**2) - evidence)

    def best(start: Floats) -> Any:
        simplex = np.vstack([start, start + 0.6 * np.eye(len(start))])
        options = {"maxfev": max(_STEPS, 10 * len(start)), "xatol": 0.05, "fatol": 0.1, "initial_simplex": simplex}
        return minimize(loss, start, method="Nelder-Mead", options=options)

    without, leaking = best(middle[:-1]), best(middle)
    return _shape(leaking.x if leaking.fun < without.fun - _CLEARLY else without.x, inputs)


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


def calibrate(
    profiles: Mapping[str, Profile], slowdowns: Slowdowns, shape: Shape, quantile: float
) -> tuple[Factors, Admission]:
    """The factor and the thresholds of each tier, from pairs, kinds and models left out in turn."""
    model_of = {kind: profile.model for kind, profile in profiles.items()}
    # Both directions of a pair are left out together; a kind or a model with all of its pairs.
    pairs, kinds, models = (
        _left_out(profiles, slowdowns, shape, groups)
        for groups in (
            {pair: {tuple(sorted(pair))} for pair in slowdowns},
            {pair: set(pair) for pair in slowdowns},
            {pair: {model_of.get(kind) for kind in pair} - {None} for pair in slowdowns},
        )
    )
    named = any(model_of.get(kind) for pair in slowdowns for kind in pair)
    return calibrated(pairs, kinds, models if named else None, _by_law(profiles, slowdowns), quantile)


def calibrated(
    pairs: LeftOutRows, kinds: LeftOutRows, models: LeftOutRows | None, by_law: Sequence[LeftOut], quantile: float
) -> tuple[Factors, Admission]:
    """As `calibrate`, from what was left out. Of kinds and models the wider factor counts, and for pairs with a new model the
    lower threshold. None: no model is known, so that only kinds may be new."""
    by_tier = {
        "both": [pairs[2]],
        "one": [kinds[1], *([models[1]] if models else [])],
        "neither": [kinds[0], *([models[0]] if models else [])],
    }
    default = Factors()
    misfits = {tier: _misfit([one for rows in found for one in rows]) for tier, found in by_tier.items()}
    factors = {
        tier: max(
            _factor(rows, quantile, getattr(default, tier), misfits[tier]) for rows in found if rows or rows is found[0]
        )
        for tier, found in by_tier.items()
    }
    of_law, law = law_calibration(_worse_of(by_law)), {one.pair: one.expected for one in by_law}
    resized = {"one_resized": [kinds[1]], "neither_resized": [kinds[0]]}
    tiers = {}
    for tier, found in (by_tier | resized).items():
        left_out = [_worse_of(rows, law) for rows in found]
        # The last are the newest to what is known: models, if any is.
        tiers[tier] = with_law(strictest(list(map(calibration, left_out))), of_law, left_out[-1])
    return Factors(**factors, misfits=(misfits["neither"], misfits["one"], misfits["both"])), Admission.of(
        **tiers, law=of_law
    )


def _left_out(
    profiles: Mapping[str, Profile],
    slowdowns: Slowdowns,
    shape: Shape,
    groups: Mapping[tuple[str, str], Set[Any]],
) -> LeftOutRows:
    """Predictions of what was left out, by how many of its two kinds were still known.

    `groups` names the groups of each pair. A fifth of the groups is left out each time, with all pairs that are in one of them.
    """
    found: LeftOutRows = {0: [], 1: [], 2: []}
    names = sorted({name for of_pair in groups.values() for name in of_pair})
    drawn = np.random.default_rng(0).permutation(len(names)).tolist()
    for start in range(min(_FOLDS, len(names))):
        out = {names[i] for i in drawn[start::_FOLDS]}
        rest = {pair: values for pair, values in slowdowns.items() if not groups[pair] & out}
        asked = [pair for pair in slowdowns if groups[pair] & out]
        if not rest or not asked:
            continue
        learned = fit_shaped(profiles, rest, shape)
        ones, besides = ([profiles.get(pair[side], Profile(pair[side])) for pair in asked] for side in (0, 1))
        logs, doubt = learned.logs(ones, besides)
        for one, beside, log, width, pair in zip(ones, besides, logs.tolist(), doubt.tolist(), asked, strict=True):
            measured, units = fmean(map(math.log, slowdowns[pair])), frozenset(groups[pair] & out)
            apart = _apart(pair, slowdowns[pair])
            found[learned.known(one, beside)].append(LeftOut(pair, start, log, width, measured, units, apart))
    return found


def _apart(pair: tuple[str, str], values: Sequence[float]) -> float:
    """`LeftOut.apart`: of any two of the values on average, since which two are of one meeting is not known."""
    if pair[0] != pair[1] or len(values) < 2:
        return 0.0
    return fmean(abs(math.log(one / other)) / 2 for one, other in combinations(values, 2))


def _by_law(profiles: Mapping[str, Profile], slowdowns: Slowdowns) -> list[LeftOut]:
    """What the law expects of these pairs, where both utilisations are known: nothing was fitted, so nothing is left out."""
    table = _Table(profiles, slowdowns)
    utilization = numbers(table.kinds)[:, 0]
    expected = logs(utilization[table.a], utilization[table.b]).tolist()
    units = {profile.kind: profile.model or profile.kind for profile in table.kinds}
    rows = zip(table.pairs, expected, table.y.tolist(), strict=True)
    return [
        LeftOut(pair, 0, law, 1.0, measured, frozenset(units[kind] for kind in pair), _apart(pair, slowdowns[pair]))
        for pair, law, measured in rows
        if not math.isnan(law)
    ]


def _misfit(left_out: Sequence[LeftOut]) -> float:
    """The likeliest standard deviation that is to be added to every doubt, up to a common factor; 0 from few pairs.

    Doubt is almost nothing where the law expects no slowdown. Where such pairs are slowed all the same, a factor alone would have
    to make up for it, and would widen all other bounds as much.
    """
    if len(left_out) < _ENOUGH_FOR_MISFIT:
        return 0.0
    squares = np.array([(one.measured - one.expected) ** 2 for one in left_out])
    doubts = np.array([one.doubt for one in left_out]) ** 2

    def loss(misfit: float) -> float:
        variance = doubts + misfit**2
        return float(len(squares) * math.log(fmean(squares / variance) + 1e-12) + np.log(variance).sum())

    return min(_MISFITS, key=loss)


def _factor(left_out: Sequence[LeftOut], quantile: float, default: float, misfit: float) -> float:
    """The conformal quantile of the scores, widened where they are of few models or kinds; from too few of them, at least the
    default."""
    scores = [(one.measured - one.expected) / math.hypot(one.doubt, misfit) for one in left_out]
    ordered = sorted(scores)
    rank = conformal_rank(len(ordered), quantile)
    value = ordered[rank - 1] if rank is not None else max([default, *ordered])
    return round(max(0.0, value * _widening(scores, [one.units for one in left_out], quantile)), 6)


def _widening(scores: Sequence[float], units: Sequence[frozenset[Any]], quantile: float) -> float:
    """By how much the scores of a new unit may be wider than these: those of one unit err alike, so the part of their variance
    that lies between units (intraclass correlation, by analysis of variance) is known from so many values only, and has
    Student's quantile. The middle of scores, 0, is not fitted to them."""
    groups: dict[frozenset[Any], list[float]] = defaultdict(list)
    for score, of in zip(scores, units, strict=True):
        groups[of].append(score)
    between, within = len(groups) - 1, len(scores) - len(groups)
    if between < 1 or within < 1:
        return 1.0
    middle = fmean(scores)
    means = {of: fmean(found) for of, found in groups.items()}
    apart = math.fsum(len(found) * (means[of] - middle) ** 2 for of, found in groups.items()) / between
    inside = math.fsum((score - means[of]) ** 2 for of, found in groups.items() for score in found) / within
    size = (len(scores) - math.fsum(len(found) ** 2 for found in groups.values()) / len(scores)) / between
    variance = apart + (size - 1) * inside
    alike = min(1.0, max(0.0, (apart - inside) / variance)) if variance > 0 else 0.0
    count = len({unit for of in units for unit in of})
    student, normal = (student_quantile(quantile, freedom) for freedom in (count, math.inf))
    return math.sqrt(1 - alike + alike * (student / normal) ** 2)


def _worse_of(left_out: Sequence[LeftOut], law: Mapping[tuple[str, str], float] = MappingProxyType({})) -> LeftOutPairs:
    """The pairs known in both directions, by the worse. `law`: what the law expects of them, where it says something."""
    found = {(one.fold, one.pair): one for one in left_out}
    worst = [
        (one, other)
        for (fold, (a, b)), one in found.items()
        if a <= b and (other := found.get((fold, (b, a)))) is not None
    ]
    return LeftOutPairs.of(
        [max(one.expected, other.expected) for one, other in worst],
        [max(one.measured + one.apart, other.measured + other.apart) for one, other in worst],
        [one.units for one, _ in worst],
        [law.get(one.pair, math.nan) for one, _ in worst],
    )


def _among(table: _Table, kinds: Floats, shape: Shape) -> Floats:
    return covariance(shape, kinds, table.a, table.b, table.a, table.b)


def _posterior(table: _Table, prior: Floats, shape: Shape) -> tuple[Floats, float]:
    """(weight of each pair at the mode, log evidence up to a constant), by Newton's method with step halving."""
    count, variance = len(table.y), shape.noise**2
    identity: Floats = np.eye(count)

    def loss(weights: Floats, added: Floats) -> float:
        logs, _ = response(table.law, added, shape)
        return float(0.5 * np.sum((table.y - logs) ** 2) / variance + 0.5 * weights @ added)

    weights: Floats = np.asarray(
        np.linalg.solve(prior + (variance + 0.01) * identity, table.y - table.law), dtype=np.float64
    )
    best = loss(weights, prior @ weights)
    for _ in range(_NEWTON_STEPS):
        # A full step (Rasmussen and Williams 2006, algorithm 3.1, the slope's square as the Hessian).
        added = prior @ weights
        logs, slope = response(table.law, added, shape)
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
    _, slope = response(table.law, prior @ weights, shape)
    scale = slope / shape.noise
    determinant = np.linalg.slogdet(identity + scale[:, None] * prior * scale)[1]
    return weights, float(-best - count * math.log(shape.noise) - 0.5 * determinant)


def _shape(point: Floats, inputs: tuple[SimilarityInput, ...]) -> Shape:
    noise, sharpness, sensitivity, pressure, tie, alike, pair, *rest = (float(value) for value in point)
    reaches, leak = rest[: len(inputs)], rest[len(inputs) :]
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
        leak=math.exp(leak[0]) if leak else 0.0,
    )
