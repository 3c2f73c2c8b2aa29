"""The baselines: simple methods that gpuq has to beat, refitted on the same rows in the same run.

Of pairs: the rule on the sum of utilisations, one constant, a ridge regression additive in logs by row and column, a random
forest and boosted trees over what was measured alone. Of singles: the mean, the family's mean, the same model interpolated in
log batch size. All bounds are split conformal on left-out residuals.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from gpuq.lab.evaluate.answers import (
    AnswerPairs,
    AnswerSingles,
    Directed,
    Expected,
    FitPairs,
    FitSingles,
    Slowdowns,
    ratio_bound,
    unknown,
)
from gpuq.lab.evaluate.figures import Numbers
from gpuq.lab.measured import SingleMeasurement

# Chosen so that the ridge reproduces its published figures on Gavel's pairs: 5.8 and 11.5% with 20% of the pairs known.
RIDGE_PENALTY = 0.5
_TREES = 100
_LEAST_ROWS = 20
_FOLDS = 5
_MEASURED_ALONE = ("utilization_pct", "memory_utilization_pct", "peak_memory_mib", "power_w")
_WORD = re.compile(r"[^\W\d_]+")


def rule(known: Sequence[Directed]) -> AnswerPairs:
    """Slowdown 1 where the utilisations alone sum to at most 100%, else in proportion to the sum."""
    bound = 1.0
    if known:
        sums = _sums([(row.job, row.beside) for row in known])
        measured = np.array([row.slowdown for row in known])
        there = ~np.isnan(sums)
        bound = ratio_bound(np.maximum(1.0, sums[there] / 100), measured[there])

    def answer(questions: Sequence[tuple[SingleMeasurement, SingleMeasurement]]) -> Slowdowns:
        sums = _sums(questions)
        point = np.where(np.isnan(sums), np.nan, np.maximum(1.0, sums / 100))
        return Slowdowns(point, point * max(1.0, bound), sums, sums <= 100)

    return answer


def constant(known: Sequence[Directed]) -> AnswerPairs:
    """The median of all measured slowdowns, for every pair."""
    measured = np.array([row.slowdown for row in known])
    point = float(np.median(measured)) if known else math.nan
    bound = ratio_bound(np.full(len(known), point), measured)

    def answer(questions: Sequence[tuple[SingleMeasurement, SingleMeasurement]]) -> Slowdowns:
        points = np.full(len(questions), point)
        return Slowdowns.of(points, points * bound)

    return answer


def ridge(known: Sequence[Directed], penalty: float = RIDGE_PENALTY) -> AnswerPairs:
    """log slowdown = mean + effect of the job + effect of the partner, both shrunk; the effect of an unseen job is 0."""
    rows = {name: place for place, name in enumerate(sorted({row.job.job for row in known}))}
    columns = {name: place for place, name in enumerate(sorted({row.beside.job for row in known}), start=len(rows))}
    width = len(rows) + len(columns)

    def design(pairs: Sequence[tuple[SingleMeasurement, SingleMeasurement]]) -> Numbers:
        matrix = np.zeros((len(pairs), width))
        for place, (job, beside) in enumerate(pairs):
            if job.job in rows:
                matrix[place, rows[job.job]] = 1
            if beside.job in columns:
                matrix[place, columns[beside.job]] = 1
        return matrix

    matrix = design([(row.job, row.beside) for row in known])
    logs = np.log(np.array([row.slowdown for row in known], dtype=float))
    mean = float(logs.mean()) if known else math.nan
    gram = matrix.T @ matrix + penalty * np.eye(width)
    weights = np.linalg.solve(gram, matrix.T @ (logs - mean))
    # The residual of a row if the fit had not seen it: the ridge's own residual / (1 - leverage).
    leverage = np.einsum("ij,ji->i", matrix, np.linalg.solve(gram, matrix.T))
    left_out = (logs - mean - matrix @ weights) / np.maximum(1e-6, 1 - leverage)
    bound = ratio_bound(np.ones(len(known)), np.exp(left_out))

    def answer(questions: Sequence[tuple[SingleMeasurement, SingleMeasurement]]) -> Slowdowns:
        point = np.exp(mean + design(questions) @ weights)
        return Slowdowns.of(point, point * bound)

    return answer


def forest(known: Sequence[Directed]) -> AnswerPairs:
    """A random forest over what was measured of both jobs alone; unknown where nothing was."""
    matrix = _profiles([(row.job, row.beside) for row in known])
    some = ~np.isnan(matrix).all(axis=0) if len(known) else np.zeros(0, dtype=bool)
    if len(known) < 2 or not some.any():
        return lambda questions: Slowdowns.of(unknown(len(questions)), unknown(len(questions)))
    from sklearn.ensemble import RandomForestRegressor

    logs = np.log(np.array([row.slowdown for row in known]))
    model = RandomForestRegressor(_TREES, min_samples_leaf=2, oob_score=len(known) >= 20, random_state=0)
    model.fit(matrix[:, some], logs)
    seen = model.oob_prediction_ if len(known) >= 20 else np.full(len(known), logs.mean())
    bound = ratio_bound(np.exp(seen), np.exp(logs))

    def answer(questions: Sequence[tuple[SingleMeasurement, SingleMeasurement]]) -> Slowdowns:
        if not questions:
            return Slowdowns.of(unknown(0), unknown(0))
        asked = _profiles(questions)[:, some]
        point = np.exp(model.predict(asked))
        point[np.isnan(asked).all(axis=1)] = np.nan
        return Slowdowns.of(point, point * bound)

    return answer


def boosting(known: Sequence[Directed]) -> AnswerPairs:
    """Gradient-boosted trees over what was measured of both jobs alone, batch size and step time among it; unknown where nothing
    was. Its bound comes from a fifth of the pairs left out in turn, both directions together.
    """
    matrix = _profiles([(row.job, row.beside) for row in known], (*_MEASURED_ALONE, "batch_size", "steps_per_s"))
    some = ~np.isnan(matrix).all(axis=0) if len(known) else np.zeros(0, dtype=bool)
    if len(known) < _LEAST_ROWS or not some.any():
        return lambda questions: Slowdowns.of(unknown(len(questions)), unknown(len(questions)))
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.model_selection import PredefinedSplit, cross_val_predict

    logs = np.log(np.array([row.slowdown for row in known]))
    model = HistGradientBoostingRegressor(max_iter=_TREES, min_samples_leaf=5, random_state=0)
    left_out = cross_val_predict(model, matrix[:, some], logs, cv=PredefinedSplit(_pair_folds(known)))
    model.fit(matrix[:, some], logs)
    bound = ratio_bound(np.exp(left_out), np.exp(logs))

    def answer(questions: Sequence[tuple[SingleMeasurement, SingleMeasurement]]) -> Slowdowns:
        if not questions:
            return Slowdowns.of(unknown(0), unknown(0))
        asked = _profiles(questions, (*_MEASURED_ALONE, "batch_size", "steps_per_s"))[:, some]
        point = np.exp(model.predict(asked))
        point[np.isnan(asked).all(axis=1)] = np.nan
        return Slowdowns.of(point, point * bound)

    return answer


def _pair_folds(known: Sequence[Directed]) -> list[int]:
    """The fold of each row: a seeded draw of pairs, so that neither their order nor a row's other direction counts."""
    pairs = [tuple(sorted((row.job.job, row.beside.job))) for row in known]
    names = sorted(set(pairs))
    drawn = np.random.default_rng(0).permutation(len(names)).tolist()
    fold = {names[place]: turn % _FOLDS for turn, place in enumerate(drawn)}
    return [fold[pair] for pair in pairs]


def global_mean(known: Sequence[SingleMeasurement], measured: Numbers) -> AnswerSingles:
    """The mean over all singles."""
    mean = float(measured.mean()) if len(known) else math.nan
    bound = ratio_bound(np.full(len(known), mean), measured)

    def answer(questions: Sequence[SingleMeasurement]) -> Expected:
        return Expected(np.full(len(questions), mean), np.full(len(questions), mean * bound))

    return answer


def family_mean(
    known: Sequence[SingleMeasurement], measured: Numbers, family: Callable[[SingleMeasurement], str] | None = None
) -> AnswerSingles:
    """The family's mean, or that of all where no other of the family was measured."""
    of = family or family_of
    groups = _grouped(known, measured, of)
    overall = float(measured.mean()) if len(known) else math.nan

    def point(single: SingleMeasurement, leave_out: int | None = None) -> float:
        values = [value for place, _, value in groups.get(of(single), ()) if place != leave_out]
        return math.fsum(values) / len(values) if values else overall

    left_out = np.array([point(single, place) for place, single in enumerate(known)])
    bound = ratio_bound(left_out, measured)

    def answer(questions: Sequence[SingleMeasurement]) -> Expected:
        points = np.array([point(single) for single in questions])
        return Expected(points, points * max(1.0, bound))

    return answer


def same_model(
    known: Sequence[SingleMeasurement], measured: Numbers, family: Callable[[SingleMeasurement], str] | None = None
) -> AnswerSingles:
    """The same model's values, interpolated and extrapolated linearly in log batch size; else the family's mean."""
    of = family or family_of
    models = _grouped(known, measured, lambda single: single.model)
    elsewhere = family_mean(known, measured, of)

    def point(single: SingleMeasurement, leave_out: int | None = None) -> float:
        own = [(x, y) for place, x, y in models.get(single.model, ()) if place != leave_out]
        return _interpolated(_log_batch(single), own)

    left_out = np.array([point(single, place) for place, single in enumerate(known)])
    fine = ~np.isnan(left_out)
    bound = ratio_bound(left_out[fine], measured[fine])

    def answer(questions: Sequence[SingleMeasurement]) -> Expected:
        other = elsewhere(questions)
        own = np.array([point(single) for single in questions])
        own = np.maximum(own, 0.0)  # an extrapolated line may go below 0; NaN stays NaN
        return Expected(
            np.where(np.isnan(own), other.point, own), np.where(np.isnan(own), other.upper, own * max(1.0, bound))
        )

    return answer


PAIR_BASELINES: Mapping[str, FitPairs] = {
    "rule": rule,
    "constant": constant,
    "ridge": ridge,
    "forest": forest,
    "boosting": boosting,
}
SINGLE_BASELINES: Mapping[str, FitSingles] = {
    "global_mean": global_mean,
    "family_mean": family_mean,
    "same_model": same_model,
}


def family_of(single: SingleMeasurement) -> str:
    """The table's family, else the first word of the model's name: `resnet` of `ResNet-50`."""
    if single.family is not None:
        return single.family
    found = _WORD.search(single.model)
    return found[0].lower() if found else single.model


def _grouped(
    known: Sequence[SingleMeasurement], measured: Numbers, of: Callable[[SingleMeasurement], str]
) -> dict[str, list[tuple[int, float | None, float]]]:
    """Group -> (index, log batch, value) of its members."""
    groups: dict[str, list[tuple[int, float | None, float]]] = defaultdict(list)
    for place, (single, value) in enumerate(zip(known, measured, strict=True)):
        groups[of(single)].append((place, _log_batch(single), float(value)))
    return groups


def _interpolated(at: float | None, own: Sequence[tuple[float | None, float]]) -> float:
    """The value at this log batch, from (log batch, value); the mean where a batch size is unknown, NaN with no values."""
    if not own:
        return math.nan
    by_batch: dict[float, list[float]] = defaultdict(list)
    for x, y in own:
        if x is not None:
            by_batch[x].append(y)
    placed = [(x, math.fsum(values) / len(values)) for x, values in sorted(by_batch.items())]
    if at is None or not placed:
        return math.fsum(value for _, value in own) / len(own)
    if len(placed) == 1:
        return placed[0][1]
    after = min(max(1, sum(x <= at for x, _ in placed)), len(placed) - 1)
    (x0, y0), (x1, y1) = placed[after - 1], placed[after]
    return y0 + (y1 - y0) * (at - x0) / (x1 - x0)


def _log_batch(single: SingleMeasurement) -> float | None:
    return math.log2(single.batch_size) if single.batch_size else None


def _sums(pairs: Sequence[tuple[SingleMeasurement, SingleMeasurement]]) -> Numbers:
    """The sum of the utilisations alone, percent."""
    return np.array([_or_nan(a.utilization_pct) + _or_nan(b.utilization_pct) for a, b in pairs], dtype=float)


def _profiles(
    pairs: Sequence[tuple[SingleMeasurement, SingleMeasurement]], names: Sequence[str] = _MEASURED_ALONE
) -> Numbers:
    rows = [[_or_nan(getattr(single, name)) for single in pair for name in names] for pair in pairs]
    return np.array(rows, dtype=float).reshape(len(pairs), 2 * len(names))


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value
