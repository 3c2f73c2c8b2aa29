"""A regression over kinds that shrinks: what a new kind needs, from all kinds that share something with it, and how sure.

Arrives: a `Peaks` as the trainer made it, and the traits of jobs. Leaves: for each the value expected and how far off it may
be, by Gaussian process regression (Rasmussen and Williams 2006, algorithm 2.1) over the terms of `kernel`: what is shared by
many kinds counts for all of them, what only one kind showed counts for its like. Needs numpy only. Works in the units of a
link, where errors are of one size whatever the value; `value` goes back to percent, bytes or seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta

from gpuq.learn.features.inputs import JobInputs, job_inputs
from gpuq.learn.history.history import JobFeatures
from gpuq.learn.memory.conformal import Margin
from gpuq.learn.memory.kernel import CrossSimilarity, KernelInputs, Matrix, diagonal, table

Link = Literal["plain", "root", "log", "ratio"]
TARGETS = ("utilization", "memory", "duration")
# The percentages below which readings of utilisation say nothing: without them the log of a job that idles is anything.
_IDLE_PCT = 3.0
# A log needs something above zero; one byte, one hundredth of a second.
_SMALLEST = 0.01
_LARGEST_LOG = 60.0

_FORWARD: Mapping[str, Callable[[Matrix], Matrix]] = {
    "plain": lambda y: y,
    "root": lambda y: np.sqrt(np.maximum(y, 0.0) + 1.0),
    "log": lambda y: np.log(np.maximum(y, 0.0) + _IDLE_PCT),
    "ratio": lambda y: np.log(np.maximum(y, _SMALLEST)),
}
_BACK: Mapping[str, Callable[[Matrix], Matrix]] = {
    "plain": lambda z: np.maximum(z, 0.0),
    "root": lambda z: np.maximum(np.maximum(z, 0.0) ** 2 - 1.0, 0.0),
    "log": lambda z: np.maximum(np.exp(np.minimum(z, _LARGEST_LOG)) - _IDLE_PCT, 0.0),
    "ratio": lambda z: np.exp(np.minimum(z, _LARGEST_LOG)),
}
_SLOPES: Mapping[str, Callable[[Matrix], Matrix]] = {
    "plain": np.ones_like,
    "root": lambda y: 0.5 / np.sqrt(np.maximum(y, 0.0) + 1.0),
    "log": lambda y: 1.0 / (np.maximum(y, 0.0) + _IDLE_PCT),
    "ratio": lambda y: 1.0 / np.maximum(y, _SMALLEST),
}


class KindRow(msgspec.Struct, frozen=True, kw_only=True):
    """One kind, how to recognise what is like it, and what its runs typically needed. Percent, bytes, seconds."""

    kind: str
    tokens: tuple[str, ...]
    batch_log2: float | None
    compute_log2: float | None = None
    runs: Annotated[int, Meta(ge=1)]
    utilization: float | None = None
    memory: float | None = None
    duration: float | None = None

    @property
    def inputs(self) -> JobInputs:
        """What the regression knows of it."""
        return job_inputs(JobFeatures(batch_log2=self.batch_log2, compute_log2=self.compute_log2, tokens=self.tokens))


class Regression(msgspec.Struct, frozen=True, kw_only=True):
    """What was fitted for one target. Variances are in squares of `scale`, which is in units of the link."""

    link: Link
    most: float | None
    """No value is larger; None where there is no such limit."""
    centre: float
    scale: Annotated[float, Meta(gt=0)]
    variances: dict[str, Annotated[float, Meta(ge=0)]]
    """Term (see `kernel`) -> how much it says."""
    noise: Annotated[float, Meta(gt=0)]
    """How much kinds differ for which everything known is the same."""
    run_noise: Annotated[float, Meta(ge=0)]
    """How much runs of one kind differ."""
    trust: tuple[float, ...]
    """Per row with a value: the weight that its surprise left it; a kind far from all that is like it has little."""
    margins: dict[str, Margin]
    """Level of evidence -> how far above the point the bound must stand, in standard deviations."""


class Peaks(msgspec.Struct, frozen=True, kw_only=True):
    """What the trainer found on one type of device: kinds, and a regression per target for which there were enough."""

    rows: tuple[KindRow, ...]
    utilization: Regression | None = None
    memory: Regression | None = None
    duration: Regression | None = None


@dataclass(frozen=True, slots=True)
class Posterior:
    """What is expected of each job, and how much of its kind is not known (a variance). Units of the link, scaled."""

    mean: Matrix
    variance: Matrix

    def of(self, which: Sequence[int]) -> Posterior:
        """The beliefs at these places."""
        places = np.array(which, dtype=np.intp)
        return Posterior(self.mean[places], self.variance[places])


class FittedRegression:
    """A regression made ready to answer."""

    def __init__(self, rows: Sequence[KindRow], side: KernelInputs, target: str, regression: Regression) -> None:
        """`side` is that of all rows; those without a value of the target do not count."""
        self.regression = regression
        self._variances = table(regression.variances)
        places = [place for place, row in enumerate(rows) if getattr(row, target) is not None]
        self._columns = None if len(places) == len(rows) else np.array(places, dtype=np.intp)
        values = np.array([float(getattr(rows[place], target)) for place in places])
        self._values = values
        runs = np.array([float(rows[place].runs) for place in places])
        self._units = self.units(values)
        self._noise = (regression.noise + regression.run_noise / runs) / np.array(regression.trust)
        among = self._known(CrossSimilarity(side, side).covariance(self._variances))
        among = (among if self._columns is None else among[self._columns]) + np.diag(self._noise)
        root = np.linalg.inv(np.linalg.cholesky(among))
        self._inverse = root.T @ root
        self._root = np.ascontiguousarray(root.T, dtype=np.float32)
        self._weights = self._inverse @ self._units
        self._places = {rows[place].kind: i for i, place in enumerate(places)}
        self._without = self.left_out(range(len(places)))

    def units(self, values: Matrix) -> Matrix:
        """Percent, bytes or seconds in scaled units of the link."""
        return np.asarray((link_units(self.regression.link, values) - self.regression.centre) / self.regression.scale)

    def values(self, units: Matrix) -> Matrix:
        """The way back."""
        found = _BACK[self.regression.link](units * self.regression.scale + self.regression.centre)
        return found if self.regression.most is None else np.minimum(found, self.regression.most)

    def belief(self, jobs: KernelInputs, across: CrossSimilarity) -> Posterior:
        """What is expected of these jobs, taken for kinds that have not run; `across` is from them to all rows."""
        shared = self._known(across.covariance(self._variances))
        through = shared @ self._root.astype(shared.dtype, copy=False)
        explained = np.einsum("ij,ij->i", through, through)
        unknown = np.maximum(diagonal(jobs, self._variances) - explained, 0.0)
        return Posterior(shared @ self._weights.astype(shared.dtype), unknown + self.regression.noise)

    def log_evidence(self) -> float:
        """How likely the values of the rows are under it (log density, percent, bytes or seconds); more is better.

        Marginal likelihood (Rasmussen and Williams 2006, equation 2.30) with the link's slope, so that links compare.
        """
        slopes = np.log(link_slopes(self.regression.link, self._values) / self.regression.scale)
        determinant = float(np.linalg.slogdet(self._inverse)[1])
        return 0.5 * (determinant - float(self._units @ self._weights)) + float(slopes.sum())

    def without(self, kind: str) -> tuple[float, float] | None:
        """(mean, variance) that is believed of a kind from all the others; None for one that it was not fitted on."""
        place = self._places.get(kind)
        return None if place is None else (float(self._without.mean[place]), float(self._without.variance[place]))

    def left_out(self, groups: Iterable[int]) -> Posterior:
        """What would be believed of each row's kind, had no row of its group been there.

        In closed form from the inverse covariance (Rasmussen and Williams 2006, equations 5.10 to 5.12, by blocks).
        """
        of = np.array(list(groups))
        mean, variance = np.empty(len(of)), np.empty(len(of))
        for group in np.unique(of):
            rows = np.flatnonzero(of == group)
            block = np.linalg.inv(self._inverse[np.ix_(rows, rows)])
            mean[rows] = self._units[rows] - block @ self._weights[rows]
            variance[rows] = np.diag(block)
        return Posterior(mean, np.maximum(variance - self._noise, 0.0) + self.regression.noise)

    def _known(self, covariance: Matrix) -> Matrix:
        return covariance if self._columns is None else covariance[:, self._columns]

    def point(self, belief: Posterior) -> Matrix:
        """The values expected."""
        return self.values(belief.mean)

    def upper(self, belief: Posterior, levels: Sequence[str]) -> Matrix:
        """The bounds of each job's next run, by the margin of the level it is answered at."""
        amounts = np.array([self.regression.margins[level].amount for level in levels])
        return self.values(belief.mean + amounts * np.sqrt(belief.variance + self.regression.run_noise))

    def updated(self, belief: tuple[float, float], runs: Sequence[float]) -> float:
        """The value expected of a kind once its own runs are in: the mean of both, each by how sure it is."""
        mean, variance = belief
        own = self.units(np.array(runs))
        precision = len(runs) / max(self.regression.run_noise, 1e-9)
        both = (mean / variance + float(own.mean()) * precision) / (1.0 / variance + precision)
        return float(self.values(np.array([both]))[0])


def link_slopes(link: Link, values: Matrix) -> Matrix:
    """By how much a unit of the link changes with a percent, byte or second there."""
    return np.asarray(_SLOPES[link](values))


def link_units(link: Link, values: Matrix) -> Matrix:
    """Percent, bytes or seconds in units of the link."""
    return np.asarray(_FORWARD[link](values))
