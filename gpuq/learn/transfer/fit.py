"""The part of the nightly training about types of device: ratios from the history, carriers from op profiles as well.

A carrier is trained from kinds that were profiled on the anchor type and timed on the target types.

Which members are averaged, and how wide the bound is, come from cross-validation that leaves whole kinds out: with its other
batch sizes in the fit, a kind would be predicted too well. The same rows give the same carrier. Needs scikit-learn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from gpuq.errors import BadInput
from gpuq.learn.history.history import History
from gpuq.learn.statistics import conformal_rank, student_quantile
from gpuq.learn.transfer.carrier import Carrier, Members, blended
from gpuq.learn.transfer.features import LEAST_MS, Column, Groups, Rows, groups, op_ms, scaled
from gpuq.learn.transfer.members import Forest, Kernel, Tree, apart
from gpuq.learn.transfer.profile import IDLE, OpProfile
from gpuq.learn.transfer.ratio import paces, ratios
from gpuq.learn.transfer.transfer import Carriers, Transfer

# With fewer kinds, leaving some out leaves too few to fit on.
LEAST_KINDS = 6
_FOLDS = 3
_TREES = 100
_BLENDS = (("kernel", "trees"), ("kernel", "trees", "by_op"))
# Long enough that the kernel falls almost linearly over all distances seen, and noise of a repeated run, a few percent,
# against ratios that differ by tens. Picked, as the features were, after looking at a scan over PROFET's T4 rows, where
# neighbouring values did about as well; not by nested cross-validation.
_REACH = 8.0
_NOISE = 0.01


@dataclass(frozen=True)
class ProfiledJobs:
    """Jobs profiled on one type: a label that tells kinds apart, profile and seconds per step there, and on the targets.

    `target_profiles` may hold the same jobs' profiles on a target; with those of all targets, ops are predicted one by one.
    """

    kinds: Sequence[str]
    profiles: Sequence[OpProfile]
    step_s: Sequence[float]
    target_s: Mapping[str, Sequence[float]]
    target_profiles: Mapping[str, Sequence[OpProfile]]


@dataclass(frozen=True)
class _Table:
    """The same as arrays: times per group on the anchor and, where known, on each target (n, targets, groups)."""

    kinds: Any
    times_ms: Rows
    step_s: Column
    target_s: Rows
    target_ms: Any | None

    @property
    def log_ratios(self) -> Rows:
        return np.asarray(np.log(self.target_s / self.step_s[:, None]))

    def take(self, chosen: Any) -> _Table:
        """Only these rows."""
        target_ms = None if self.target_ms is None else self.target_ms[chosen]
        return _Table(self.kinds[chosen], self.times_ms[chosen], self.step_s[chosen], self.target_s[chosen], target_ms)


def fit_transfer(history: History, profiles: Sequence[OpProfile], quantile: float) -> Transfer:
    """What history and profiles teach; a carrier only for pairs of types with at least `LEAST_KINDS` profiled kinds."""
    found = ratios(history, quantile)
    usable = tuple(one for one in profiles if one.kind and one.device_type and one.step_s and one.ops_us)
    carriers: Carriers = {}
    for anchor, targets in found.items():
        for target in targets:
            measured = _measured(history, usable, anchor, target)
            if len(set(measured.kinds)) >= LEAST_KINDS:
                carriers.setdefault(anchor, {})[target] = carrier(measured, quantile=quantile)
    return Transfer(ratios=found, carriers=carriers, profiles=usable if carriers else ())


def _measured(history: History, profiles: Sequence[OpProfile], anchor: str, target: str) -> ProfiledJobs:
    """The profiles on the anchor of work that was also timed on the target, of the framework with the most of them."""
    rows: dict[str | None, list[tuple[OpProfile, float]]] = {}
    for profile in profiles:
        if profile.device_type == anchor and profile.kind is not None:
            there = paces(history.runs(profile.kind, target)).get((profile.script_sha256, profile.batch_log2))
            if there is not None and there[0] is not None:
                rows.setdefault(profile.framework, []).append((profile, there[0]))
    most = max(rows.values(), key=len, default=[])
    return ProfiledJobs(
        kinds=[profile.kind or "" for profile, _ in most],
        profiles=[profile for profile, _ in most],
        step_s=[profile.step_s or math.nan for profile, _ in most],
        target_s={target: [step_s for _, step_s in most]},
        target_profiles={},
    )


def carrier(measured: ProfiledJobs, *, quantile: float = 0.95, seed: int = 0) -> Carrier:
    """The carrier for these rows. Raises BadInput where there are fewer kinds than `LEAST_KINDS`."""
    if len(set(measured.kinds)) < LEAST_KINDS:
        raise BadInput(
            f"{len(set(measured.kinds))} kinds were measured on both types; {LEAST_KINDS} are needed.",
            fix="Profile more kinds with `gpuq profile`.",
        )
    table, found = table_of(measured)
    # What each member says of rows whose kinds it has not seen. Folds by kind, not by row: rows of a kind differ in batch size
    # only and would predict each other.
    fold_of = {kind: index % _FOLDS for index, kind in enumerate(sorted(set(table.kinds)))}
    folds = np.array([fold_of[kind] for kind in table.kinds])
    opinions: dict[str, Rows] = {}
    for fold in range(_FOLDS):
        out = table.take(folds == fold)
        members = train(table.take(folds != fold), seed=seed)
        for name, value in members.log_ratios(out.times_ms, out.step_s).items():
            opinions.setdefault(name, np.empty_like(table.target_s))[folds == fold] = value

    # Per target the blend with the lowest mean absolute percentage error; of equals, the first. Weights are equal and the choice
    # is short: with some dozen kinds, a longer list overfits.
    blends: list[tuple[str, ...]] = []
    uppers: list[float] = []
    possible = [names for names in _BLENDS if all(name in opinions for name in names)]
    for column, truth in enumerate(table.log_ratios.T):
        residuals = [truth - blended(opinions, names, column) for names in possible]
        best = int(np.argmin([np.mean(np.abs(np.expm1(-residual))) for residual in residuals]))
        blends.append(possible[best])
        uppers.append(margin(residuals[best], table.kinds, quantile))
    kept = {name for names in blends for name in names}
    members = train(table, seed=seed)
    members = msgspec.structs.replace(members, **{name: None for name in members.__struct_fields__ if name not in kept})
    return Carrier(
        measured.profiles[0].framework, found, tuple(measured.target_s), members, tuple(blends), tuple(uppers)
    )


def train(table: _Table, *, seed: int) -> Members:
    """Every member, trained on all rows of the table."""
    from sklearn.ensemble import ExtraTreesRegressor

    rows, ratios = scaled(table.times_ms, table.step_s), table.log_ratios
    trees = ExtraTreesRegressor(_TREES, min_samples_leaf=2, max_features=0.5, random_state=seed)
    by_op = None
    if table.target_ms is not None:
        op_ratios = np.log((table.target_ms + LEAST_MS) / (table.times_ms[:, None, :] + LEAST_MS))
        by_op = kernel_of(rows, op_ratios.reshape(len(rows), -1))
    return Members(
        trees=forest_of(trees, rows, ratios),
        kernel=kernel_of(rows, ratios),
        by_op=by_op,
    )


def table_of(measured: ProfiledJobs) -> tuple[_Table, Groups]:
    """The rows as arrays, and the groups of their ops' names."""
    everywhere = [measured.profiles, *measured.target_profiles.values()]
    names = {name for profiles in everywhere for profile in profiles for name in profile.shares()}
    found = groups(sorted(names - {IDLE}))
    targets = list(measured.target_s)
    target_ms = None
    if all(target in measured.target_profiles for target in targets):
        each = [op_ms(measured.target_profiles[target], measured.target_s[target], found) for target in targets]
        target_ms = np.stack(each, axis=1)
    table = _Table(
        kinds=np.asarray(measured.kinds),
        times_ms=op_ms(measured.profiles, measured.step_s, found),
        step_s=np.asarray(measured.step_s, dtype=np.float64),
        target_s=np.column_stack([measured.target_s[target] for target in targets]).astype(np.float64),
        target_ms=target_ms,
    )
    return table, found


def margin(residuals: Column, kinds: Any, quantile: float) -> float:
    """The log margin that bounds the truth of a kind not seen with probability `quantile`.

    Rows of a kind err together, so kinds are counted: Student's t with one degree of freedom fewer than kinds, times the root
    of the mean squared error averaged kind by kind; at least the empirical quantile of the rows.
    """
    names = sorted(set(kinds))
    means = [float(np.mean(residuals[kinds == name])) for name in names]
    squares = [float(np.mean((residuals[kinds == name] - np.mean(means)) ** 2)) for name in names]
    count = len(names)
    wide = student_quantile(quantile, count - 1) * np.sqrt(np.mean(squares) * (1 + 1 / count))
    ordered = np.sort(residuals)
    rank = conformal_rank(len(ordered), quantile)
    empirical = ordered[-1] if rank is None else ordered[rank - 1]
    return max(0.0, float(np.mean(means) + wide), float(empirical))


def forest_of(untrained: Any, rows: Rows, targets: Rows) -> Forest:
    """scikit-learn's forest, trained on these rows, as plain numbers."""
    # scikit-learn wants a single target without its second axis.
    trained = untrained.fit(rows, targets[:, 0] if targets.shape[1] == 1 else targets)
    trees: list[Tree] = []
    for tree in (one.tree_ for one in trained.estimators_):
        leaf = tree.children_left < 0
        trees.append(
            Tree(
                feature=tuple(np.where(leaf, -1, tree.feature).tolist()),
                threshold=tuple(np.where(leaf, 0.0, tree.threshold).tolist()),
                left=tuple(np.maximum(tree.children_left, 0).tolist()),
                right=tuple(np.maximum(tree.children_right, 0).tolist()),
                value=_nested(tree.value[:, :, 0]),
            )
        )
    return Forest(tuple(trees))


def kernel_of(rows: Rows, values: Rows) -> Kernel:
    """The Gaussian process through these values."""
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    scale = np.where(spread > 1e-9, spread, 1.0)
    points, level = (rows - mean) / scale, values.mean(axis=0)
    covariance = np.exp(-apart(points, points) / _REACH) + _NOISE * np.eye(len(points))
    weights = np.linalg.solve(covariance, values - level)
    return Kernel(_plain(mean), _plain(scale), _REACH, _nested(points), _nested(weights), _plain(level))


def _nested(rows: Any) -> tuple[tuple[float, ...], ...]:
    return tuple(map(_plain, rows))


def _plain(values: Any) -> tuple[float, ...]:
    return tuple(float(value) for value in values)
