"""Judges methods on what was held out from them: gpuq and every baseline on the same rows, by the same figures.

Figures are given over all rows, and by device type and sharing mode, which are never mixed in learning. A method is not judged
on questions to which it has no answer; `n` says how many it answered.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np

from gpuq.lab.evaluate import figures
from gpuq.lab.evaluate.answers import BUDGET, QUANTILE, FitPairs, FitSingles, Slowdowns
from gpuq.lab.evaluate.clean import JoinedPair, combined, combined_pairs
from gpuq.lab.evaluate.figures import Flags, Numbers
from gpuq.lab.evaluate.holdout import Split
from gpuq.lab.measured import SingleMeasurement

Group = tuple[str, str | None]
TARGETS = ("utilization", "memory")


@dataclass(frozen=True, slots=True)
class Method:
    """A method to predict slowdowns of pairs, peaks of singles, or both; None for what it does not predict."""

    name: str
    pairs: FitPairs | None = None
    utilization: FitSingles | None = None
    memory: FitSingles | None = None

    def peaks(self, target: str) -> FitSingles | None:
        """How it predicts one of `TARGETS`."""
        return self.utilization if target == "utilization" else self.memory


@dataclass(frozen=True, slots=True)
class SlowdownFigures:
    """Error, coverage and overshoot are over `n` directed slowdowns. Auc, precision and recall are over `pairs` with both
    slowdowns known, of which the worse is under the budget or not; `directed_auc` is over each slowdown. None where not
    defined. `coverage_chance`: how likely a bound that holds in 95% of cases fails as often as this one; each measured slowdown
    counts once there, however often it was asked about.
    """

    n: int
    error_pct: float | None = None
    median_error_pct: float | None = None
    auc: float | None = None
    precision: float | None = None
    recall: float | None = None
    coverage_pct: float | None = None
    coverage_chance: float | None = None
    overshoot: float | None = None
    directed_auc: float | None = None
    pairs: int = 0


@dataclass(frozen=True, slots=True)
class PeakFigures:
    """Over `n` jobs. The error is in points for utilisation and in percent for memory; `far_below_pct` percent of the jobs
    needed over 10% more than expected. None where not defined.
    """

    n: int
    error: float | None = None
    coverage_pct: float | None = None
    overshoot: float | None = None
    far_below_pct: float | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """What methods answered about pairs: rows 2i and 2i + 1 are the two directions of pair i, unknown is NaN."""

    pairs: tuple[JoinedPair, ...]
    measured: Numbers
    answers: dict[str, Slowdowns]


def judge_pairs(
    splits: Sequence[Split[JoinedPair]], methods: Sequence[Method], budget: float = BUDGET
) -> dict[Group | None, dict[str, SlowdownFigures]]:
    """Group -> method -> figures at this budget; the group None is all of them together."""
    asked = ask_pairs(splits, methods)
    slowdowns = [(pair.key, side) for pair in asked.pairs for side in range(2)]
    groups = [pair.group for pair in asked.pairs for _ in range(2)]
    places = {group: np.array([found == group for found in groups]) for group in sorted(set(groups), key=str)}
    everywhere = np.ones(len(asked.measured), dtype=bool)
    return {
        group: {
            name: slowdown_figures(
                _part(answer, place), asked.measured[place], list(compress(slowdowns, place)), budget
            )
            for name, answer in asked.answers.items()
        }
        for group, place in [(None, everywhere), *places.items()]
    }


def ask_pairs(splits: Sequence[Split[JoinedPair]], methods: Sequence[Method]) -> Asked:
    """What each method, fitted to the known pairs of a split, answers about the others; never across groups."""
    truths: list[float] = []
    all_pairs: list[JoinedPair] = []
    parts: dict[str, list[Slowdowns]] = defaultdict(list)
    for split in splits:
        known = _grouped(split.known)
        for group, asked in _grouped(split.asked).items():
            # Some methods draw by position: in one order whatever the file's, the same rows give the same answers.
            ordered = sorted(combined_pairs(known.get(group, ())), key=lambda pair: (pair.a.job, pair.b.job))
            evidence = [row for pair in ordered for row in pair.directed()]
            pairs = combined_pairs(asked)
            # Two questions for each pair, one for each direction.
            questions = [question for pair in pairs for question in ((pair.a, pair.b), (pair.b, pair.a))]
            values = [value for pair in pairs for value in (pair.slowdown_a, pair.slowdown_b)]
            truths += [np.nan if value is None else value for value in values]
            all_pairs += pairs
            for method in methods:
                if method.pairs is not None:
                    parts[method.name].append(method.pairs(evidence)(questions))
    answers = {name: _joined(of_method) for name, of_method in parts.items()}
    return Asked(tuple(all_pairs), np.array(truths, dtype=float), answers)


def judge_singles(
    splits: Sequence[Split[SingleMeasurement]], methods: Sequence[Method], target: str
) -> dict[str, PeakFigures]:
    """Method -> figures, for one of `TARGETS`. Methods are fitted per device type and judged over all of them."""
    measured: list[float] = []
    points: dict[str, list[Numbers]] = defaultdict(list)
    uppers: dict[str, list[Numbers]] = defaultdict(list)
    for split in splits:
        for device_type in sorted({single.device_type for single in split.asked}):
            asked, truth = _known(split.asked, device_type, target)
            if not asked:
                continue
            measured += truth
            known, values = _known(split.known, device_type, target)
            questions = [before_it_runs(single) for single in asked]
            for method in methods:
                fit = method.peaks(target)
                if fit is not None:
                    answer = fit(known, np.array(values, dtype=float))(questions)
                    points[method.name].append(answer.point)
                    uppers[method.name].append(answer.upper)
    return {
        name: peak_figures(np.concatenate(points[name]), np.concatenate(uppers[name]), np.array(measured), target)
        for name in points
    }


def slowdown_figures(
    answer: Slowdowns, measured: Numbers, of: Sequence[Hashable] | None = None, budget: float = BUDGET
) -> SlowdownFigures:
    """The figures of directed answers; rows 2i and 2i + 1 are the two directions of one pair. NaN is unknown. `of` names the
    slowdown that each row is about, where several may be about the same."""
    there = ~np.isnan(measured) & ~np.isnan(answer.point)
    bounded = there & ~np.isnan(answer.upper)
    both = there.reshape(-1, 2).all(axis=1)
    worse = measured.reshape(-1, 2)[both].max(axis=1)
    risk = answer.risk.reshape(-1, 2)[both].max(axis=1)
    admitted = np.asarray(answer.admitted(budget).reshape(-1, 2)[both].all(axis=1))
    good = np.asarray(worse < budget)
    rows = list(range(len(measured))) if of is None else of
    return SlowdownFigures(
        n=int(there.sum()),
        error_pct=figures.mean_absolute_pct(answer.point[there], measured[there]),
        median_error_pct=figures.median_absolute_pct(answer.point[there], measured[there]),
        auc=figures.auc(-risk, good),
        precision=figures.precision(admitted, good),
        recall=figures.recall(admitted, good),
        coverage_pct=figures.coverage_pct(answer.upper[bounded], measured[bounded]),
        coverage_chance=figures.failures_chance(
            answer.upper[bounded], measured[bounded], list(compress(rows, bounded)), QUANTILE
        ),
        overshoot=figures.overshoot(answer.upper[bounded], measured[bounded]),
        directed_auc=figures.auc(-answer.risk[there], measured[there] < budget),
        pairs=int(both.sum()),
    )


def peak_figures(point: Numbers, upper: Numbers, measured: Numbers, target: str) -> PeakFigures:
    """The figures of one target. Predicted utilisations are clipped to 0 to 100%."""
    if target == "utilization":
        point, upper = np.clip(point, 0, 100), np.clip(upper, 0, 100)
    there = ~np.isnan(point)
    bounded = there & ~np.isnan(upper)
    error = figures.mean_absolute if target == "utilization" else figures.mean_absolute_pct
    return PeakFigures(
        n=int(there.sum()),
        error=error(point[there], measured[there]),
        coverage_pct=figures.coverage_pct(upper[bounded], measured[bounded]),
        overshoot=figures.overshoot(upper[bounded], measured[bounded]),
        far_below_pct=figures.far_below_pct(point[there], measured[there]),
    )


def before_it_runs(single: SingleMeasurement) -> SingleMeasurement:
    """What is known of a job before it runs: nothing measured."""
    return SingleMeasurement(
        single.device_type, single.job, single.model, single.batch_size, family=single.family, command=single.command
    )


def _grouped(pairs: Sequence[JoinedPair]) -> dict[Group, list[JoinedPair]]:
    groups: dict[Group, list[JoinedPair]] = defaultdict(list)
    for pair in pairs:
        groups[pair.group].append(pair)
    return groups


def _known(
    rows: Sequence[SingleMeasurement], device_type: str, target: str
) -> tuple[list[SingleMeasurement], list[float]]:
    """The singles of this type of device of which the target was measured, and its values."""
    column = "utilization_pct" if target == "utilization" else "peak_memory_mib"
    here = combined(row for row in rows if row.device_type == device_type)
    singles = [single for single in here if getattr(single, column) is not None]
    return singles, [getattr(single, column) for single in singles]


def _joined(parts: Sequence[Slowdowns]) -> Slowdowns:
    point, upper, risk = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("point", "upper", "risk")
    )
    rules = [part.admits for part in parts if part.admits is not None]
    return Slowdowns(point, upper, risk, np.concatenate(rules) if rules else None)


def _part(answer: Slowdowns, place: Flags) -> Slowdowns:
    rule = None if answer.admits is None else answer.admits[place]
    return Slowdowns(answer.point[place], answer.upper[place], answer.risk[place], rule)
