"""Forecasts of peaks and duration from a model, for many jobs at once.

The regressions and clusters of one type of device answer for kinds without runs of their own (None where nothing is similar),
and improve the expected utilisation of kinds that have runs. Jobs are answered together because one large matrix product is
far cheaper than many small ones. Needs numpy only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from gpuq.learn.features.inputs import JobInputs, job_inputs
from gpuq.learn.history.job_features import JobFeatures
from gpuq.learn.memory.clusters import ClusterIndex
from gpuq.learn.memory.evidence_tiers import EvidenceTier, EvidenceTiers
from gpuq.learn.memory.kernel import CrossSimilarity, KernelInputs
from gpuq.learn.memory.regression import TARGETS, FittedRegression, Peaks

# Tiers near enough to predict a duration: farther ones say nothing of the number of epochs.
TIERS_WITH_DURATION = ("sizes", "template")
# Jobs that are computed at once: their covariances with all rows are in memory together.
_AT_ONCE = 2000


@dataclass(frozen=True, slots=True)
class NewKindForecast:
    """(expected, upper bound) of each target for a kind without runs; None where too few kinds showed it."""

    tier: EvidenceTier
    utilization: tuple[float, float] | None
    memory: tuple[float, float] | None
    duration: tuple[float, float] | None


class PeakPredictor:
    """The regressions of one type of device, ready to answer."""

    def __init__(self, peaks: Peaks, clusters: ClusterIndex | None) -> None:
        self._tiers = EvidenceTiers(peaks.rows, clusters)
        self._row_inputs = KernelInputs([row.inputs for row in peaks.rows])
        fitted = {target: getattr(peaks, target) for target in TARGETS}
        self._regressions = {
            name: FittedRegression(peaks.rows, self._row_inputs, name, found)
            for name, found in fitted.items()
            if found is not None
        }

    def new_kinds(self, jobs: Sequence[JobFeatures]) -> list[NewKindForecast | None]:
        """A forecast for each job, taken as a kind without runs. Equal jobs are computed once."""
        found: dict[JobFeatures, NewKindForecast] = {}
        different = list(dict.fromkeys(jobs))
        for start in range(0, len(different), _AT_ONCE):
            some = different[start : start + _AT_ONCE]
            with_tier = [(job, tier) for job in some if (tier := self._tiers.tier(job)) is not None]
            found.update(zip((job for job, _ in with_tier), self._at(with_tier), strict=True))
        return [found.get(job) for job in jobs]

    def expected_utilization(self, kinds: Sequence[tuple[str, JobFeatures, Sequence[float]]]) -> list[float]:
        """Expected percent of kinds with runs, from (kind, features, measured percents): own runs and similar kinds combined."""
        regression = self._regressions.get("utilization")
        if regression is None or not kinds:
            return [median(runs) for _, _, runs in kinds]
        without = [regression.without(kind) for kind, _, _ in kinds]
        new = [place for place, posterior in enumerate(without) if posterior is None]
        asked_inputs = KernelInputs([job_inputs(kinds[place][1]) for place in new])
        posterior = regression.posterior(asked_inputs, CrossSimilarity(asked_inputs, self._row_inputs, quick=True))
        without_new = dict(
            zip(new, zip(map(float, posterior.mean), map(float, posterior.variance), strict=True), strict=True)
        )
        return [
            regression.updated(found or without_new[place], runs)
            for place, (found, (_, _, runs)) in enumerate(zip(without, kinds, strict=True))
        ]

    def _at(self, with_tier: Sequence[tuple[JobFeatures, EvidenceTier]]) -> list[NewKindForecast]:
        if not with_tier:
            return []
        # Jobs with equal inputs share one row of the covariance matrix.
        index_of: dict[JobInputs, int] = {}
        input_of = [index_of.setdefault(job_inputs(job), len(index_of)) for job, _ in with_tier]
        asked_inputs = KernelInputs(list(index_of))
        similarity = CrossSimilarity(asked_inputs, self._row_inputs, quick=True)
        tiers = [tier.name for _, tier in with_tier]
        pairs = {}
        with_duration = any(name in TIERS_WITH_DURATION for name in tiers)
        for name, regression in self._regressions.items():
            if name == "duration" and not with_duration:
                continue
            posterior = regression.posterior(asked_inputs, similarity).of(input_of)
            pairs[name] = regression.values(posterior.mean).tolist(), regression.upper(posterior, tiers).tolist()
        return [
            NewKindForecast(
                tier,
                _nth(pairs.get("utilization"), place),
                _nth(pairs.get("memory"), place),
                _nth(pairs.get("duration"), place) if tier.name in TIERS_WITH_DURATION else None,
            )
            for place, (_, tier) in enumerate(with_tier)
        ]


def _nth(pairs: tuple[list[float], list[float]] | None, place: int) -> tuple[float, float] | None:
    return None if pairs is None else (pairs[0][place], pairs[1][place])
