"""Forecasts of peaks and duration from a model, for many jobs at once.

Arrives: `Peaks` and the clusters of one type of device, and what is known of jobs. Leaves: a `NewKindForecast` for each kind without
runs of its own, None where nothing is like it; and the utilisation expected of kinds that have runs. Needs numpy only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from gpuq.learn.features.inputs import JobInputs, job_inputs
from gpuq.learn.history.history import JobFeatures
from gpuq.learn.memory.evidence_tiers import EvidenceTier, EvidenceTiers
from gpuq.learn.memory.kernel import CrossSimilarity, KernelInputs
from gpuq.learn.memory.regression import TARGETS, FittedRegression, Peaks
from gpuq.learn.training.clusters import ClusterIndex

# Levels near enough to say how long a job takes: elsewhere the number of epochs alone makes it anything.
TELL_DURATION = ("sizes", "template")
# Different jobs that are worked out at once: their covariances with all rows are in memory together.
_AT_ONCE = 2000


@dataclass(frozen=True, slots=True)
class NewKindForecast:
    """What a kind without runs is believed to need: (expected, bound) of each target, None where too few kinds showed it."""

    level: EvidenceTier
    utilization: tuple[float, float] | None
    memory: tuple[float, float] | None
    duration: tuple[float, float] | None


class PeakPredictor:
    """The regressions of one type of device, made ready to answer."""

    def __init__(self, peaks: Peaks, places: ClusterIndex | None) -> None:
        self._levels = EvidenceTiers(peaks.rows, places)
        self._side = KernelInputs([row.inputs for row in peaks.rows])
        fitted = {target: getattr(peaks, target) for target in TARGETS}
        self._regressed = {
            name: FittedRegression(peaks.rows, self._side, name, found)
            for name, found in fitted.items()
            if found is not None
        }

    def guesses(self, jobs: Sequence[JobFeatures]) -> list[NewKindForecast | None]:
        """For each job, taken for a kind without runs. Jobs that are alike are worked out once."""
        found: dict[JobFeatures, NewKindForecast | None] = {}
        different = list(dict.fromkeys(jobs))
        for start in range(0, len(different), _AT_ONCE):
            some = different[start : start + _AT_ONCE]
            levels = [self._levels.level(job) for job in some]
            placed = [(job, level) for job, level in zip(some, levels, strict=True) if level is not None]
            found.update(dict.fromkeys(some))
            found.update(zip((job for job, _ in placed), self._at(placed), strict=True))
        return [found[job] for job in jobs]

    def expected_utilization(self, kinds: Sequence[tuple[str, JobFeatures, Sequence[float]]]) -> list[float]:
        """Of kinds with runs: (kind, what is known of it, what its runs showed) -> percent, their own and their like's."""
        regressed = self._regressed.get("utilization")
        if regressed is None or not kinds:
            return [median(runs) for _, _, runs in kinds]
        without = [regressed.without(kind) for kind, _, _ in kinds]
        new = [place for place, belief in enumerate(without) if belief is None]
        side = KernelInputs([job_inputs(kinds[place][1]) for place in new])
        belief = regressed.belief(side, CrossSimilarity(side, self._side, quick=True))
        without_new = dict(
            zip(new, zip(map(float, belief.mean), map(float, belief.variance), strict=True), strict=True)
        )
        return [
            regressed.updated(found or without_new[place], runs)
            for place, (found, (_, _, runs)) in enumerate(zip(without, kinds, strict=True))
        ]

    def _at(self, placed: Sequence[tuple[JobFeatures, EvidenceTier]]) -> list[NewKindForecast]:
        if not placed:
            return []
        # Traits are what the regression sees: jobs that differ in nothing else get one row of the covariance.
        places: dict[JobInputs, int] = {}
        which = [places.setdefault(job_inputs(job), len(places)) for job, _ in placed]
        side = KernelInputs(list(places))
        across = CrossSimilarity(side, self._side, quick=True)
        levels = [level.name for _, level in placed]
        pairs = {}
        tell_duration = any(name in TELL_DURATION for name in levels)
        for name, regressed in self._regressed.items():
            if name == "duration" and not tell_duration:
                continue
            belief = regressed.belief(side, across).of(which)
            pairs[name] = regressed.point(belief).tolist(), regressed.upper(belief, levels).tolist()
        return [
            NewKindForecast(
                level,
                _nth(pairs.get("utilization"), place),
                _nth(pairs.get("memory"), place),
                _nth(pairs.get("duration"), place) if level.name in TELL_DURATION else None,
            )
            for place, (_, level) in enumerate(placed)
        ]


def _nth(pairs: tuple[list[float], list[float]] | None, place: int) -> tuple[float, float] | None:
    return None if pairs is None else (pairs[0][place], pairs[1][place])
