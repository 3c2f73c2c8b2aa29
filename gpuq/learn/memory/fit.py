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
from itertools import chain, islice, zip_longest
from statistics import NormalDist, median

import msgspec
import numpy as np

from gpuq.learn.history.history import History, MeasuredRun, measured
from gpuq.learn.memory.conformal import Margin, Residual, margins
from gpuq.learn.memory.evidence_tiers import TIERS, groups_left_out
from gpuq.learn.memory.kernel import CrossSimilarity, KernelInputs, Matrix
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

KindRuns = tuple[KindRow, list[MeasuredRun]]
"""A kind, and its finished runs."""


def fit_peaks(history: History, quantile: float) -> dict[str, Peaks]:
    """Device type -> its peaks, for each type with at least `LEAST_ROWS` kinds."""
    quantiles = {"utilization": quantile, "memory": quantile, "duration": DURATION_QUANTILE}
    peaks: dict[str, Peaks] = {}
    for device_type, kinds in fair_rows(history).items():
        if len(kinds) >= LEAST_ROWS:
            fitted = {target: _fit(kinds, target, quantiles[target]) for target in TARGETS}
            peaks[device_type] = Peaks(rows=tuple(row for row, _ in kinds), **fitted)
    return peaks


def fair_rows(history: History) -> dict[str, list[KindRuns]]:
    """Device type -> at most `MOST_ROWS` kinds, the owners taking turns with their latest kinds; sorted by name."""
    owners: dict[str, dict[frozenset[str], list[KindRuns]]] = defaultdict(lambda: defaultdict(list))
    for kind, device_type in reversed(list(history.kinds())):
        runs = [run for run in history.runs(kind, device_type) if run.whole]
        if not runs:
            continue
        known = runs[-1].known
        values = {target: measured(runs, field) for target, field in _FIELDS.items()}
        row = KindRow(
            kind=kind,
            tokens=known.tokens,
            batch_log2=known.batch_log2,
            compute_log2=known.compute_log2,
            runs=len(runs),
            **{target: median(seen) if seen else None for target, seen in values.items()},
        )
        owners[device_type][row.inputs.owner].append((row, runs))
    found: dict[str, list[KindRuns]] = {}
    for device_type in sorted(owners):
        turns = (kind for kind in chain.from_iterable(zip_longest(*owners[device_type].values())) if kind is not None)
        found[device_type] = sorted(islice(turns, MOST_ROWS), key=lambda kind: kind[0].kind)
    return found


def _fit(kinds: Sequence[KindRuns], target: str, quantile: float) -> Regression | None:
    known = [(row, measured(runs, _FIELDS[target])) for row, runs in kinds if getattr(row, target) is not None]
    if len(known) < LEAST_ROWS:
        return None
    problem = _Problem([row for row, _ in known], target, [repeats for _, repeats in known])
    solved = [problem.solve(link) for link in _LINKS[target]]
    return problem.with_margins(max(solved, key=FittedRegression.log_evidence), quantile)


class _Problem:
    """The rows of one target, and what does not depend on the link."""

    def __init__(self, rows: Sequence[KindRow], target: str, repeats: Sequence[Sequence[float]]) -> None:
        self._rows, self._target, self._repeats = rows, target, repeats
        self._values = np.array([float(getattr(row, target)) for row in rows])
        self._runs = np.array([float(row.runs) for row in rows])
        self._inputs = KernelInputs([row.inputs for row in rows])
        # The terms that matter here: not zero everywhere, and not equal to an earlier one.
        self._terms: dict[str, Matrix] = {}
        for term, matrix in CrossSimilarity(self._inputs, self._inputs).terms().items():
            if matrix.any() and not any(np.array_equal(matrix, other) for other in self._terms.values()):
                self._terms[term] = matrix

    def solve(self, link: Link) -> FittedRegression:
        """The regression under this link, without margins."""
        raw = link_units(link, self._values)
        centre = float(np.median(raw))
        scale = max(float(np.std(raw)), 1e-3 * max(1.0, abs(centre)))
        units = (raw - centre) / scale
        run_noise = self._run_noise(link) / scale**2
        least = min(_FIRST_NOISE, max(_LEAST_NOISE, self._prior_noise(link) / scale**2))
        variances, noise, trust = self._likeliest(units, run_noise, least)
        found = Regression(
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
        return FittedRegression(self._rows, self._inputs, self._target, found)

    def with_margins(self, ready: FittedRegression, quantile: float) -> Regression:
        """The regression with a margin per tier, from rows left out as that tier would not have seen them."""
        truth = ready.units(self._values)
        residuals: dict[str, list[Residual]] = {}
        for tier in TIERS:
            groups = groups_left_out(self._rows, tier)
            # A row that the tier would never answer for has a group of its own, and is no residual.
            names = [f"alone {i}" if group is None else group for i, group in enumerate(groups)]
            numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
            places = [numbers[name] for name in names]
            without = ready.left_out(places)
            spread = np.sqrt(without.variance + ready.regression.run_noise)
            owners = [max(row.inputs.owner, default=None) for row in self._rows]
            residuals[tier] = [
                Residual(str(places[i]), float(truth[i]), float(without.mean[i]), float(spread[i]), owner=owners[i])
                for i, group in enumerate(groups)
                if group is not None
            ]
        found: dict[str, Margin] = margins(residuals, quantile, "added", dict.fromkeys(TIERS, _PRIOR))
        if self._target == "memory":
            # A bound too wide costs some sharing, one too narrow costs a job, and few kinds that agree prove little: at least the
            # normal quantile.
            least = NormalDist().inv_cdf(quantile)
            found = {name: msgspec.structs.replace(one, amount=max(one.amount, least)) for name, one in found.items()}
        return msgspec.structs.replace(ready.regression, margins=found)

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
        self._matrices, self._units, self._run_noise = matrices, units, run_noise
        self._trust, self._first = trust, first

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
