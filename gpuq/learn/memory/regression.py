"""A fitted regression over kinds, ready to answer: what a new kind needs, and how uncertain that is.

Gaussian process regression (Rasmussen and Williams 2006, algorithm 2.1) over the terms of `kernel`: what many kinds share is
estimated from all of them, what only one kind showed counts for similar ones. Needs numpy only. It works in the units of a
link, in which errors are of one size whatever the value; `values` converts back to percent, bytes or seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta

from gpuq.learn.features.inputs import JobInputs, job_inputs
from gpuq.learn.history.job_features import JobFeatures
from gpuq.learn.memory.conformal import Margin
from gpuq.learn.memory.kernel import CrossSimilarity, KernelInputs, Matrix, diagonal, table

Link = Literal["plain", "root", "log", "ratio"]
TARGETS = ("utilization", "memory", "duration")
# Added before the log of a utilisation: readings below this percentage are noise, and their logs would be arbitrary.
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
    """One kind: what it is compared by, and what its runs typically needed. Percent, bytes, seconds."""

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
        """What the regression knows of the kind."""
        return job_inputs(JobFeatures(batch_log2=self.batch_log2, compute_log2=self.compute_log2, tokens=self.tokens))


class Regression(msgspec.Struct, frozen=True, kw_only=True):
    """What was fitted for one target. Variances are squares in units of `scale`, which is in units of the link."""

    link: Link
    most: float | None
    """The largest possible value; None where there is no limit."""
    centre: float
    scale: Annotated[float, Meta(gt=0)]
    variances: dict[str, Annotated[float, Meta(ge=0)]]
    """Term (see `kernel`) -> its variance."""
    noise: Annotated[float, Meta(gt=0)]
    """The variance between kinds whose inputs are equal."""
    run_noise: Annotated[float, Meta(ge=0)]
    """The variance between runs of one kind."""
    trust: tuple[float, ...]
    """Per row with a value: its weight. A kind far from all similar ones has a low weight."""
    margins: dict[str, Margin]
    """Tier of evidence -> how far above the point the bound must be, in standard deviations."""


class Peaks(msgspec.Struct, frozen=True, kw_only=True):
    """What the trainer found on one type of device: kinds, and a regression for each target that enough kinds showed."""

    rows: tuple[KindRow, ...]
    utilization: Regression | None = None
    memory: Regression | None = None
    duration: Regression | None = None


@dataclass(frozen=True, slots=True)
class Posterior:
    """Mean and variance of each job's kind, before the noise between its runs. Scaled units of the link."""

    mean: Matrix
    variance: Matrix

    def of(self, which: Sequence[int]) -> Posterior:
        """The entries at these indices."""
        places = np.array(which, dtype=np.intp)
        return Posterior(self.mean[places], self.variance[places])


class FittedRegression:
    """A `Regression` with its inverse covariance computed."""

    def __init__(self, rows: Sequence[KindRow], row_inputs: KernelInputs, target: str, regression: Regression) -> None:
        """`row_inputs` holds the inputs of all rows; rows without a value of the target are not used."""
        self.regression = regression
        self._variances = table(regression.variances)
        places = [place for place, row in enumerate(rows) if getattr(row, target) is not None]
        self._columns = None if len(places) == len(rows) else np.array(places, dtype=np.intp)
        values = np.array([float(getattr(rows[place], target)) for place in places])
        self._values = values
        runs = np.array([float(rows[place].runs) for place in places])
        self._units = self.units(values)
        # Noise between kinds does not shrink with more runs of one kind; noise between runs does.
        self._noise = (regression.noise + regression.run_noise / runs) / np.array(regression.trust)
        among = self._known(CrossSimilarity(row_inputs, row_inputs).covariance(self._variances))
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
        """Scaled units of the link in percent, bytes or seconds; the inverse of `units`, limited to `most`."""
        found = _BACK[self.regression.link](units * self.regression.scale + self.regression.centre)
        return found if self.regression.most is None else np.minimum(found, self.regression.most)

    def posterior(self, jobs: KernelInputs, similarity: CrossSimilarity) -> Posterior:
        """The posterior of these jobs as kinds that have not run; `similarity` is between them and all rows."""
        shared = self._known(similarity.covariance(self._variances))
        through = shared @ self._root.astype(shared.dtype, copy=False)
        explained = np.einsum("ij,ij->i", through, through)
        unknown = np.maximum(diagonal(jobs, self._variances) - explained, 0.0)
        return Posterior(shared @ self._weights.astype(shared.dtype), unknown + self.regression.noise)

    def log_evidence(self) -> float:
        """The log marginal likelihood of the rows' values, as a density per percent, byte or second.

        Rasmussen and Williams 2006, equation 2.30, with the slope of the link, so that links can be compared.
        """
        slopes = np.log(_SLOPES[self.regression.link](self._values) / self.regression.scale)
        determinant = float(np.linalg.slogdet(self._inverse)[1])
        return 0.5 * (determinant - float(self._units @ self._weights)) + float(slopes.sum())

    def without(self, kind: str) -> tuple[float, float] | None:
        """(mean, variance) of a kind predicted from all others; None for a kind that is not in the fit."""
        place = self._places.get(kind)
        return None if place is None else (float(self._without.mean[place]), float(self._without.variance[place]))

    def left_out(self, groups: Iterable[int]) -> Posterior:
        """The posterior of each row's kind, predicted without any row of its group.

        In closed form from the inverse covariance (Rasmussen and Williams 2006, equations 5.10 to 5.12, by blocks).
        """
        of = np.array(list(groups))
        mean, variance = np.empty(len(of)), np.empty(len(of))
        for group in np.unique(of):
            rows = np.flatnonzero(of == group)
            # The inverse of a block of the inverse is the covariance of these rows given all others.
            block = np.linalg.inv(self._inverse[np.ix_(rows, rows)])
            mean[rows] = self._units[rows] - block @ self._weights[rows]
            variance[rows] = np.diag(block)
        return Posterior(mean, np.maximum(variance - self._noise, 0.0) + self.regression.noise)

    def _known(self, covariance: Matrix) -> Matrix:
        return covariance if self._columns is None else covariance[:, self._columns]

    def upper(self, posterior: Posterior, tiers: Sequence[str]) -> Matrix:
        """The bound of each job's next run, by the margin of the tier at which it is answered."""
        amounts = np.array([self.regression.margins[tier].amount for tier in tiers])
        return self.values(posterior.mean + amounts * np.sqrt(posterior.variance + self.regression.run_noise))

    def updated(self, posterior: tuple[float, float], runs: Sequence[float]) -> float:
        """The expected value of a kind once its own runs are known: both means, weighted by their precision."""
        mean, variance = posterior
        own = self.units(np.array(runs))
        # The variance of the mean of n runs is run_noise / n; the floor keeps a run noise of 0 from dividing by zero.
        precision = len(runs) / max(self.regression.run_noise, 1e-9)
        both = (mean / variance + float(own.mean()) * precision) / (1.0 / variance + precision)
        return float(self.values(np.array([both]))[0])


def link_units(link: Link, values: Matrix) -> Matrix:
    """Percent, bytes or seconds in units of the link."""
    return np.asarray(_FORWARD[link](values))
