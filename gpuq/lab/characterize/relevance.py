"""How much each feature of a job says about its peak utilisation and its peak memory.

For each target all features are ranked by their Pearson, Spearman and Kendall (tau-b) coefficients and chosen by `RULE`;
columns that are no features are listed with the reason. Rows of one model are alike, so there are fewer independent ones than
rows, and the p-values are smaller than they should be: they order features and prove nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from gpuq.lab.characterize.table import FeatureColumn, FeatureTable, usable

LEVEL = 0.05
REPEATS = 0.9
LEAST_ROWS = 5
RULE = (
    "ranked by the mean rank of the three coefficients' sizes; chosen if all three have one sign, the largest of their "
    f"p-values times the number of features tested is below {LEVEL:g}, and its Spearman coefficient with every feature "
    f"chosen before it is below {REPEATS:g} in size"
)

Values = np.ndarray[tuple[int], np.dtype[np.float64]]


class Coefficient(msgspec.Struct, frozen=True):
    """A correlation from -1 to 1, and the p-value of no correlation (two-sided)."""

    value: float
    p: float


class Relevance(msgspec.Struct, frozen=True, kw_only=True):
    """One feature's correlations with one target. `rank` is the mean of its three ranks, 1 is best; `n` counts rows."""

    feature: str
    known_before_run: bool
    n: int
    pearson: Coefficient
    spearman: Coefficient
    kendall: Coefficient
    rank: float
    chosen: bool
    why_not: str | None


class ShutOut(msgspec.Struct, frozen=True):
    """A column that is no feature, and why."""

    feature: str
    reason: str


class Ranking(msgspec.Struct, frozen=True, kw_only=True):
    """The features of one target, best first."""

    target: str
    rule: str = RULE
    ranked: tuple[Relevance, ...]
    shut_out: tuple[ShutOut, ...]

    @property
    def chosen(self) -> tuple[str, ...]:
        """The names of the chosen features, best first."""
        return tuple(one.feature for one in self.ranked if one.chosen)


def rank(table: FeatureTable, target: str) -> Ranking:
    """All features of the table, ranked for this target."""
    tested, shut_out = [], [ShutOut(name, "text, not a number") for name in table.texts]
    for column in table.features:
        feature, goal = _beside(table, column.name, target)
        reason = _reason(column, feature, goal, target)
        if reason is None:
            tested.append((column, feature, goal))
        else:
            shut_out.append(ShutOut(column.name, reason))
    coefficients = [_coefficients(feature, goal) for _, feature, goal in tested]
    ranks = _mean_ranks(coefficients)
    found = [
        Relevance(
            feature=column.name,
            known_before_run=column.before,
            n=len(feature),
            pearson=three[0],
            spearman=three[1],
            kendall=three[2],
            rank=float(mean_rank),
            chosen=False,
            why_not=None,
        )
        for (column, feature, _), three, mean_rank in zip(tested, coefficients, ranks, strict=True)
    ]
    found.sort(key=lambda one: (one.rank, one.feature))
    return Ranking(target=target, ranked=_choose(table, found), shut_out=tuple(shut_out))


def _reason(column: FeatureColumn, feature: Values, goal: Values, target: str) -> str | None:
    """Why this column is no feature for the target; None if it is one."""
    if column.shut_out is not None:
        return column.shut_out
    if len(feature) < LEAST_ROWS:
        return f"known beside {target} in {len(feature)} rows only, {LEAST_ROWS} needed"
    if np.ptp(feature) == 0:
        return "constant"
    return f"{target} is constant where this is known" if np.ptp(goal) == 0 else None


def _choose(table: FeatureTable, found: Sequence[Relevance]) -> tuple[Relevance, ...]:
    chosen: list[str] = []
    judged = []
    for one in found:
        why_not = _objection(table, one, len(found), chosen)
        if why_not is None:
            chosen.append(one.feature)
        judged.append(msgspec.structs.replace(one, chosen=why_not is None, why_not=why_not))
    return tuple(judged)


def _objection(table: FeatureTable, one: Relevance, tested: int, chosen: Sequence[str]) -> str | None:
    """The part of `RULE` that a feature fails, given those chosen before it; None if it passes."""
    from scipy import stats

    three = (one.pearson, one.spearman, one.kendall)
    if len({coefficient.value > 0 for coefficient in three}) > 1:
        return "the three differ in sign"
    worst = max(coefficient.p for coefficient in three) * tested
    if worst >= LEVEL:
        return f"may be chance: corrected p {min(1.0, worst):.2g}"
    for other in chosen:
        mine, its = _beside(table, one.feature, other)
        if len(mine) < LEAST_ROWS or np.ptp(mine) == 0 or np.ptp(its) == 0:
            continue
        if abs(float(stats.spearmanr(mine, its).statistic)) >= REPEATS:
            return f"repeats {other}"
    return None


def _coefficients(feature: Values, goal: Values) -> tuple[Coefficient, Coefficient, Coefficient]:
    from scipy import stats

    results = (test(feature, goal) for test in (stats.pearsonr, stats.spearmanr, stats.kendalltau))
    pearson, spearman, kendall = (Coefficient(float(found.statistic), float(found.pvalue)) for found in results)
    return pearson, spearman, kendall


def _mean_ranks(coefficients: Sequence[tuple[Coefficient, ...]]) -> Values:
    from scipy import stats

    if not coefficients:
        return np.empty(0)
    # Rounded, so that the last bit of a sum does not break a tie.
    sizes = np.array([[round(-abs(one.value), 12) for one in three] for three in coefficients])
    return np.asarray(stats.rankdata(sizes, axis=0).mean(axis=1))


def _beside(table: FeatureTable, one: str, other: str) -> tuple[Values, Values]:
    """The values of two columns in the rows that have both."""
    both = [
        (row.values[one], row.values[other])
        for row in table.rows
        if usable(row.values.get(one)) and usable(row.values.get(other))
    ]
    pairs = np.array(both, dtype=np.float64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]
