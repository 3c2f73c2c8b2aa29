"""Fits the regressions of peaks: variances of the terms, weights of the rows, and margins of the bounds.

For the trainer only: scipy is imported where it is used. The same outcomes give the same result. Variances and link are
chosen by marginal likelihood under a wide prior; margins by leaving out what each tier would not have seen.

A kind is one row however often it ran, owners have equal shares of the rows, and a row that contradicts all similar ones
loses its weight (Student's t noise, by the expectation-maximisation of Lange, Little and Taylor 1989). So a flood of one
kind, or poisoned values in some, change other kinds' forecasts little.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest
from statistics import NormalDist, median

import msgspec
import numpy as np

from gpuq.learn.history.history import History, MeasuredRun, measured
from gpuq.learn.memory.conformal import Margin, Residual, margins
from gpuq.learn.memory.evidence_tiers import TIERS, groups_left_out
from gpuq.learn.memory.kernel import TERMS, CrossSimilarity, KernelInputs, Matrix
from gpuq.learn.memory.regression import TARGETS, FittedRegression, KindRow, Link, Peaks, Regression, link_units
from gpuq.learn.statistics import REPEATED_RUN, SAME_KIND_MEMORY, Prior

# Kinds per type of device that a regression keeps: the work grows with its square when serving, its cube when training.
MOST_ROWS = 300
# Fewer kinds than this make no regression.
LEAST_ROWS = 3
# Links to choose from; of equals the first. Errors of bytes and seconds are proportional to their size.
_LINKS: Mapping[str, tuple[Link, ...]] = {
    "utilization": ("plain", "root", "log"),
    "memory": ("ratio",),
    "duration": ("ratio",),
}
_MOST = {"utilization": 100.0}
_FIELDS = {"utilization": "peak_utilization_pct", "memory": "peak_memory_bytes", "duration": "duration_s"}
# Upper durations are p90.
DURATION_QUANTILE = 0.9
# Residuals are standardised, so the prior of their scale is 1 (see `conformal`).
_PRIOR = Prior(1.0)
# The prior of each variance is log-normal and wide: a factor of 4.5 up or down is one standard deviation.
_LOG_SPREAD = 1.5
_LEAST_LOG, _MOST_LOG = -12.0, 4.0
_LEAST_NOISE = 1e-3
_FIRST_NOISE = 0.05
# Degrees of freedom of the noise: 4 has tails as heavy as those of repeated runs.
_FREEDOM = 4.0
# Terms with less than this share of the total variance are left out: they only cost time.
_NEGLIGIBLE = 1e-3
_ROUNDS = (60, 15, 15)
# The weight of the prior of the spread between runs, in runs.
_RUNS_WORTH = 5.0
# Squared deviations are capped at this many times the usual one (five standard deviations).
_WILD = 25.0


def fit_peaks(history: History, quantile: float) -> dict[str, Peaks]:
    """Device type -> its peaks, for each type with at least `LEAST_ROWS` kinds."""
    found: dict[str, list[tuple[KindRow, list[MeasuredRun]]]] = defaultdict(list)
    for kind, device_type in reversed(list(history.kinds())):
        runs = [run for run in history.runs(kind, device_type) if run.whole]
        if runs:
            found[device_type].append((_row(kind, runs), runs))
    return {
        device_type: _fit(kinds, quantile)
        for device_type, kinds in ((name, _fair(found[name])) for name in sorted(found))
        if len(kinds) >= LEAST_ROWS
    }


def _row(kind: str, runs: Sequence[MeasuredRun]) -> KindRow:
    known = runs[-1].known
    typical = {target: median(values) if (values := measured(runs, _FIELDS[target])) else None for target in TARGETS}
    return KindRow(
        kind=kind,
        tokens=known.tokens,
        batch_log2=known.batch_log2,
        compute_log2=known.compute_log2,
        runs=len(runs),
        **typical,
    )


def _fair(kinds: Sequence[tuple[KindRow, list[MeasuredRun]]]) -> list[tuple[KindRow, list[MeasuredRun]]]:
    """At most `MOST_ROWS` kinds, the owners taking turns with their latest kinds; sorted by name."""
    by_owner: dict[frozenset[str], list[tuple[KindRow, list[MeasuredRun]]]] = defaultdict(list)
    for row, runs in kinds:
        by_owner[row.inputs.owner].append((row, runs))
    turns = (kind for kind in chain.from_iterable(zip_longest(*by_owner.values())) if kind is not None)
    return sorted((kind for kind, _ in zip(turns, range(MOST_ROWS), strict=False)), key=lambda kind: kind[0].kind)


def _fit(kinds: Sequence[tuple[KindRow, list[MeasuredRun]]], quantile: float) -> Peaks:
    rows = tuple(row for row, _ in kinds)
    runs = [runs for _, runs in kinds]
    fitted = {
        target: _best_link(rows, runs, target, DURATION_QUANTILE if target == "duration" else quantile)
        for target in TARGETS
    }
    return Peaks(rows=rows, **fitted)


def _best_link(
    rows: Sequence[KindRow], runs: Sequence[Sequence[MeasuredRun]], target: str, quantile: float
) -> Regression | None:
    places = [place for place, row in enumerate(rows) if getattr(row, target) is not None]
    if len(places) < LEAST_ROWS:
        return None
    known = [rows[place] for place in places]
    repeats = [measured(runs[place], _FIELDS[target]) for place in places]
    problem = _Problem(known, target, repeats)
    fitted = [problem.solve(link) for link in _LINKS[target]]
    best = max(fitted, key=problem.log_evidence)
    return problem.with_margins(best, quantile)


class _Problem:
    """The rows of one target, and what does not depend on the link."""

    def __init__(self, rows: Sequence[KindRow], target: str, repeats: Sequence[Sequence[float]]) -> None:
        self._rows, self._target, self._repeats = rows, target, repeats
        self._values = np.array([float(getattr(row, target)) for row in rows])
        self._runs = np.array([float(row.runs) for row in rows])
        self._side = KernelInputs([row.inputs for row in rows])
        self._terms = _telling(CrossSimilarity(self._side, self._side).terms())

    def solve(self, link: Link) -> Regression:
        """The regression under this link, without margins."""
        raw = link_units(link, self._values)
        centre = float(np.median(raw))
        scale = max(float(np.std(raw)), 1e-3 * max(1.0, abs(centre)))
        units = (raw - centre) / scale
        run_noise = self._run_noise(link) / scale**2
        least = min(_FIRST_NOISE, max(_LEAST_NOISE, self._prior_noise(link) / scale**2))
        variances, noise, trust = self._likeliest(units, run_noise, least)
        return Regression(
            link=link,
            most=_MOST.get(self._target),
            centre=round(centre, 9),
            scale=round(scale, 9),
            variances={term: float(f"{value:.6g}") for term, value in variances.items()},
            noise=float(f"{noise:.6g}"),
            run_noise=float(f"{run_noise:.6g}"),
            trust=tuple(round(float(weight), 6) for weight in trust),
            margins={},
        )

    def log_evidence(self, regression: Regression) -> float:
        """The log marginal likelihood of the values under this regression."""
        return FittedRegression(self._rows, self._side, self._target, regression).log_evidence()

    def with_margins(self, regression: Regression, quantile: float) -> Regression:
        """The regression with a margin per tier, from rows left out as that tier would not have seen them."""
        ready = FittedRegression(self._rows, self._side, self._target, regression)
        residuals = {tier: self._residuals(ready, tier) for tier in TIERS}
        found: dict[str, Margin] = margins(residuals, quantile, "added", dict.fromkeys(TIERS, _PRIOR))
        if self._target == "memory":
            # A bound too wide costs some sharing, one too narrow costs a job, and few kinds that agree prove little: at least the
            # normal quantile.
            least = NormalDist().inv_cdf(quantile)
            found = {name: msgspec.structs.replace(one, amount=max(one.amount, least)) for name, one in found.items()}
        return msgspec.structs.replace(regression, margins=found)

    def _residuals(self, ready: FittedRegression, tier: str) -> list[Residual]:
        groups = groups_left_out(self._rows, tier)
        numbers: dict[object, int] = {}
        places = [
            numbers.setdefault(("alone", i) if group is None else group, len(numbers)) for i, group in enumerate(groups)
        ]
        without = ready.left_out(places)
        truth = ready.units(self._values)
        spread = np.sqrt(without.variance + ready.regression.run_noise)
        return [
            Residual(str(places[i]), float(truth[i]), float(without.mean[i]), float(spread[i]), owner=_owner(row))
            for i, row in enumerate(self._rows)
            if groups[i] is not None
        ]

    def _run_noise(self, link: Link) -> float:
        """The pooled variance between runs of one kind, in squares of the link's units, with a prior worth `_RUNS_WORTH` runs."""
        prior = self._prior_noise(link)
        repeated = [link_units(link, np.array(values)) for values in self._repeats if len(values) > 1]
        if not repeated:
            return prior
        squares = np.concatenate([(found - np.mean(found)) ** 2 for found in repeated])
        # A few wild runs must not raise the noise so far that all differences between kinds seem to be noise.
        squares = np.minimum(squares, _WILD * max(prior, float(np.median(squares))))
        freedom = sum(len(found) - 1 for found in repeated)
        return (_RUNS_WORTH * prior + float(squares.sum())) / (_RUNS_WORTH + freedom)

    def _prior_noise(self, link: Link) -> float:
        """The variance between runs of one kind that other measurements showed, at the median of the values."""
        scale = SAME_KIND_MEMORY.scale if self._target == "memory" else REPEATED_RUN.scale
        typical = float(np.median(self._values))
        here, more = link_units(link, np.array([typical, typical * math.exp(scale)]))
        return max(float(more - here) ** 2, 1e-12)

    def _likeliest(self, units: Matrix, run_noise: float, least: float) -> tuple[dict[str, float], float, Matrix]:
        """(variances, noise, weights of the rows), the most likely, in turns: variances for given weights, then weights.

        `least` is a floor of the noise: kinds differ at least as much as runs of one kind do.
        """
        from scipy.optimize import minimize

        matrices = list(self._terms.values())
        first = np.log(np.array([*[1.0 / len(matrices)] * len(matrices), _FIRST_NOISE]))
        logs: Matrix = first
        trust: Matrix = np.ones(len(units))
        for most_steps in _ROUNDS:
            evidence = _Evidence(matrices, units, run_noise / self._runs, trust, first)
            bounds = [(_LEAST_LOG, _MOST_LOG)] * len(matrices) + [(math.log(least), _MOST_LOG)]
            found = minimize(
                evidence, logs, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": most_steps}
            )
            logs = found.x
            trust = evidence.trust(logs)
        variances = dict(zip(self._terms, map(float, np.exp(logs[:-1])), strict=True))
        shares = {term: variance * float(np.diag(self._terms[term]).mean()) for term, variance in variances.items()}
        least = _NEGLIGIBLE * math.fsum(shares.values())
        kept = {term: variance for term, variance in variances.items() if shares[term] >= least}
        return kept, math.exp(logs[-1]), trust


class _Evidence:
    """The negative log posterior of the variances, with its gradient, for given weights of the rows."""

    def __init__(
        self, matrices: Sequence[Matrix], units: Matrix, run_noise: Matrix, trust: Matrix, first: Matrix
    ) -> None:
        self._matrices, self._units, self._run_noise, self._trust, self._first = (
            matrices,
            units,
            run_noise,
            trust,
            first,
        )

    def __call__(self, logs: Matrix) -> tuple[float, Matrix]:
        variances = np.exp(logs)
        inverse, weights, log_determinant = self._solve(variances)
        outer = inverse - np.outer(weights, weights)
        slopes = [0.5 * v * float(np.sum(outer * m)) for v, m in zip(variances[:-1], self._matrices, strict=True)]
        slopes.append(0.5 * float(variances[-1]) * float(np.sum(np.diag(outer) / self._trust)))
        away = (logs - self._first) / _LOG_SPREAD
        value = 0.5 * float(self._units @ weights) + 0.5 * log_determinant + 0.5 * float(away @ away)
        return value, np.array(slopes) + away / _LOG_SPREAD

    def trust(self, logs: Matrix) -> Matrix:
        """Each row's weight under Student's t noise, from its squared residual and that residual's variance."""
        variances = np.exp(logs)
        inverse, weights, _ = self._solve(variances)
        noise = (variances[-1] + self._run_noise) / self._trust
        squares = (noise * weights) ** 2 + np.maximum(noise - noise**2 * np.diag(inverse), 0.0)
        return np.asarray((_FREEDOM + 1.0) / (_FREEDOM + squares / (variances[-1] + self._run_noise)))

    def _solve(self, variances: Matrix) -> tuple[Matrix, Matrix, float]:
        total = np.diag((variances[-1] + self._run_noise) / self._trust)
        for variance, matrix in zip(variances[:-1], self._matrices, strict=True):
            total += variance * matrix
        inverse = np.linalg.inv(total)
        return inverse, inverse @ self._units, float(np.linalg.slogdet(total)[1])


def _telling(found: dict[str, Matrix]) -> dict[str, Matrix]:
    """The terms that matter here: not zero everywhere, and not equal to an earlier one."""
    kept: dict[str, Matrix] = {}
    for term in TERMS:
        matrix = found[term]
        if matrix.any() and not any(np.array_equal(matrix, other) for other in kept.values()):
            kept[term] = matrix
    return kept


def _owner(row: KindRow) -> str | None:
    return max(row.inputs.owner, default=None)
