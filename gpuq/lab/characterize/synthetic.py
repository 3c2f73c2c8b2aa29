"""Synthetic rows along batch size: what a job would have shown at a batch size between two that were measured.

Rows are made at the middle of every gap. Batch sizes are taken by their logarithm, since people choose them in doublings.
Nothing is extrapolated.

Each method of interpolation is judged by regenerating collected rows, in two ways:

- *round trip*, the design of the seed dataset's authors (Alnair, "AI Workloads resource utilization characterization"):
  the synthetic rows are taken for the truth, and the collected ones are regenerated from them;
- *held back*: each inner collected row is regenerated from the others, as if it had not been measured.

The round trip favours methods that oscillate: a polynomial through oscillations of its own returns through the collected rows,
however wrong it is between them. So the method with the least held-back error is used, among those that give no impossible
value (below zero, or above the column's largest) between the collected rows.
"""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

import msgspec
import numpy as np

from gpuq.lab.characterize.table import FeatureColumn, FeatureTable, MeasuredRow, usable

# Points between two collected rows at which a curve is checked for impossible values.
_CHECKS_PER_GAP = 8

Values = np.ndarray[tuple[int], np.dtype[np.float64]]
Function = Callable[[Values], Values]
Sized = tuple[float, MeasuredRow]


class Errors(msgspec.Struct, frozen=True):
    """Regenerated against collected values, in the column's unit: root mean square, mean square, mean absolute."""

    n: int
    rmse: float
    mse: float
    mae: float


class Quality(msgspec.Struct, frozen=True, kw_only=True):
    """How well one way of interpolation regenerates one column; None where no series has a row between two others.

    `impossible` counts checked places between collected rows where its value cannot be. `used` marks the way that
    makes the synthetic rows, `best_round_trip` the one that the seed's design would have taken.
    """

    column: str
    method: str
    round_trip: Errors | None
    held_back: Errors | None
    impossible: int
    used: bool = False
    best_round_trip: bool = False


class SyntheticRow(msgspec.Struct, frozen=True):
    """A row that was interpolated, not measured."""

    series: str
    batch_size: float
    values: dict[str, float]


@dataclass(frozen=True, slots=True)
class Curve:
    """One column of one series over batch size, through the collected values."""

    batch_sizes: Values
    """Collected, ascending, each once."""
    function: Function

    def at(self, batch_size: float) -> float | None:
        """The value at this batch size; None outside the collected ones, as nothing is extrapolated."""
        if not self.batch_sizes[0] <= batch_size <= self.batch_sizes[-1]:
            return None
        # At a collected batch size a formula may compute 0 / 0 on its way to the value collected there.
        with np.errstate(all="ignore"):
            return float(self.function(np.log2(np.array([batch_size])))[0])


def curve(method: str, batch_sizes: Sequence[float], values: Sequence[float]) -> Curve:
    """The curve by one of `METHODS`. A batch size collected more than once counts by its mean.

    One batch size gives a curve that knows this one only; two give the straight line, by any method.
    """
    sizes, means = _means(batch_sizes, values)
    with np.errstate(all="ignore"):
        return Curve(sizes, METHODS[method](np.log2(sizes), means) if len(sizes) > 1 else _constant(means[0]))


def judge(table: FeatureTable, column: FeatureColumn) -> tuple[Quality, ...]:
    """The quality of every method for this column, pooled over all series; exactly one is `used`."""
    series = _series(table, column.name)
    least = 0.0 if all((values >= 0).all() for _, values in series) else -math.inf
    most = math.inf if column.most is None else column.most
    # A polynomial through many points overflows: then its values are impossible, and that is its quality.
    with np.errstate(all="ignore"):
        found = [_quality(column.name, method, series, least, most) for method in METHODS]
    possible = [one for one in found if one.impossible == 0]
    used = min(possible, key=lambda one: _rmse(one.held_back)).method
    returned = min(found, key=lambda one: _rmse(one.round_trip)) if found[0].round_trip is not None else None
    return tuple(
        msgspec.structs.replace(one, used=one.method == used, best_round_trip=one is returned) for one in found
    )


def synthesise(table: FeatureTable, used: Mapping[str, str]) -> tuple[SyntheticRow, ...]:
    """A row in the middle of every gap between two collected batch sizes, for each series.

    `used`: column -> method. A column that a series has at fewer than two batch sizes is missing from its rows.
    """
    rows = []
    for series, collected in sorted(by_series(table).items()):
        for size in middles([size for size, _ in collected]):
            values = profile(collected, size, used)
            if values:
                rows.append(SyntheticRow(series, size, {**values, table.batch: size}))
    return tuple(rows)


def profile(collected: Sequence[Sized], batch_size: float, used: Mapping[str, str]) -> dict[str, float]:
    """The values of one series at this batch size, measured or interpolated; columns unknown there are missing."""
    found = {}
    for name, method in used.items():
        sizes, values = _points(collected, name)
        value = curve(method, sizes, values).at(batch_size) if sizes else None
        if value is not None:
            found[name] = value
    return found


def middles(batch_sizes: Sequence[float]) -> list[float]:
    """The whole number nearest to the geometric mean of each two neighbours, where it lies between them."""
    sizes = sorted(set(batch_sizes))
    rounded = [(low, round(math.sqrt(low * high)), high) for low, high in pairwise(sizes)]
    return [float(middle) for low, middle, high in rounded if low < middle < high]


def by_series(table: FeatureTable) -> dict[str, tuple[Sized, ...]]:
    """The (batch size, row) of each series, smallest first; rows without a batch size above zero are passed over."""
    found: dict[str, list[Sized]] = defaultdict(list)
    for row in table.rows:
        if row.batch_size is not None and math.isfinite(row.batch_size) and row.batch_size > 0:
            found[row.series].append((row.batch_size, row))
    return {name: tuple(sorted(rows, key=lambda sized: sized[0])) for name, rows in found.items()}


def _series(table: FeatureTable, name: str) -> list[tuple[Values, Values]]:
    """(log2 of the batch sizes, values) of each series that has this column at two batch sizes or more."""
    found = []
    for collected in by_series(table).values():
        sizes, values = _means(*_points(collected, name))
        if len(sizes) > 1:
            found.append((np.log2(sizes), values))
    return found


def _points(collected: Sequence[Sized], name: str) -> tuple[list[float], list[float]]:
    both = [(size, value) for size, row in collected if usable(value := row.values.get(name)) and value is not None]
    return [size for size, _ in both], [value for _, value in both]


def _means(batch_sizes: Sequence[float], values: Sequence[float]) -> tuple[Values, Values]:
    """Each batch size once, ascending, with the mean of its values."""
    found: dict[float, list[float]] = defaultdict(list)
    for size, value in zip(batch_sizes, values, strict=True):
        found[size].append(value)
    sizes = sorted(found)
    return np.array(sizes, dtype=np.float64), np.array([fmean(found[size]) for size in sizes], dtype=np.float64)


def _quality(name: str, method: str, series: Sequence[tuple[Values, Values]], least: float, most: float) -> Quality:
    through, shares = METHODS[method], np.arange(1, _CHECKS_PER_GAP) / _CHECKS_PER_GAP
    returned: list[float] = []
    held_back: list[float] = []
    impossible = 0
    for x, y in series:
        function = through(x, y)
        between = function((x[:-1, None] + np.diff(x)[:, None] * shares).ravel())
        # A hair beyond is rounding.
        impossible += int(np.count_nonzero(~((between >= least - 1e-9) & (between <= most + 1e-9))))
        if len(x) > 2:
            middle = (x[:-1] + x[1:]) / 2
            returned += list(through(middle, function(middle))(x[1:-1]) - y[1:-1])
        for inner in range(1, len(x) - 1):
            others = np.arange(len(x)) != inner
            held_back.append(float(through(x[others], y[others])(x[inner : inner + 1])[0] - y[inner]))
    return Quality(
        column=name,
        method=method,
        round_trip=_errors(returned),
        held_back=_errors(held_back),
        impossible=impossible,
    )


def _errors(differences: Sequence[float]) -> Errors | None:
    if not differences:
        return None
    away = np.array(differences)
    mse = float(np.mean(away**2))
    return Errors(len(away), math.sqrt(mse), mse, float(np.mean(np.abs(away))))


def _rmse(errors: Errors | None) -> float:
    """Rounded, so that two names for one polynomial tie and the first is taken."""
    if errors is None:
        return 0.0
    return round(errors.rmse, 9) if math.isfinite(errors.rmse) else math.inf


def _constant(value: float) -> Function:
    return lambda at: np.full(len(at), value)


def _linear(x: Values, y: Values) -> Function:
    return lambda at: np.interp(at, x, y)


def _pchip(x: Values, y: Values) -> Function:
    from scipy import interpolate

    return interpolate.PchipInterpolator(x, y)  # type: ignore[no-any-return]


def _barycentric(x: Values, y: Values) -> Function:
    """The weights are given: scipy would compute them in an order of chance, and the last bits with them."""
    from scipy import interpolate

    away = x[:, None] - x[None, :]
    np.fill_diagonal(away, 1.0)
    return interpolate.BarycentricInterpolator(x, y, wi=1 / away.prod(axis=1))  # type: ignore[no-any-return]


def _krogh(x: Values, y: Values) -> Function:
    from scipy import interpolate

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that many points make it unstable: it is judged like the others
        return interpolate.KroghInterpolator(x, y)  # type: ignore[no-any-return]


def _cubic_spline(x: Values, y: Values) -> Function:
    from scipy import interpolate

    return interpolate.CubicSpline(x, y)  # type: ignore[no-any-return]


def _second_order_spline(x: Values, y: Values) -> Function:
    """Through the collected values, unlike a smoothing spline."""
    from scipy import interpolate

    return interpolate.make_interp_spline(x, y, k=min(2, len(x) - 1))  # type: ignore[no-any-return]


# The simplest first: of two that do equally well it is used.
METHODS: Mapping[str, Callable[[Values, Values], Function]] = {
    "linear": _linear,
    "PCHIP": _pchip,
    "barycentric": _barycentric,
    "Krogh": _krogh,
    "cubic spline": _cubic_spline,
    "spline of order 2": _second_order_spline,
}
