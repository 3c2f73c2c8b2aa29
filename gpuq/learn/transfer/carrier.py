"""Predicts a step's time on other types of device from an op profile and the step time on one type (the anchor).

Needs numpy alone. Three members each predict log(step on the target / step on the anchor):

- `trees`: extremely randomised trees on the log ratio;
- `kernel`: a Gaussian process on the log ratio;
- `by_op`: the same process for each group of ops, whose times are then added up.

Used is the mean of trees and kernel, with or without `by_op`: cross-validation over kinds chooses per target when the carrier is
trained. Members that no target uses are not stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from gpuq.learn.transfer.features import LEAST_MS, Column, Groups, Rows, op_ms, scaled
from gpuq.learn.transfer.members import Forest, Kernel
from gpuq.learn.transfer.profile import OpProfile

# No pair of GPU types differs by more; a larger ratio is an error of the member.
_MOST_LOG_RATIO = np.log(100.0)


class Members(msgspec.Struct, frozen=True):
    """The trained members; None for those that were not trained or are not used."""

    trees: Forest | None = None
    kernel: Kernel | None = None
    by_op: Kernel | None = None

    def log_ratios(self, times_ms: Rows, step_s: Column) -> dict[str, Rows]:
        """Log of target / anchor by each member: (n, targets) per name."""
        rows = scaled(times_ms, step_s)
        found: dict[str, Rows] = {}
        if self.trees is not None:
            found["trees"] = self.trees.predict(rows)
        if self.kernel is not None:
            found["kernel"] = self.kernel.predict(rows)
        if self.by_op is not None:
            found["by_op"] = added_up(self.by_op.predict(rows), times_ms, step_s)
        return {name: np.clip(value, -_MOST_LOG_RATIO, _MOST_LOG_RATIO) for name, value in found.items()}


class Carrier(msgspec.Struct, frozen=True):
    """The members with, per target, the names of those that are averaged (`blends`) and the log margin of the bound
    (`uppers`).

    Ops of another framework have other names, so only profiles of the same `framework` can be carried.
    """

    framework: str | None
    groups: Groups
    targets: tuple[str, ...]
    members: Members
    blends: tuple[tuple[str, ...], ...]
    uppers: tuple[float, ...]

    def ratios(self, profiles: Sequence[OpProfile], step_s: Sequence[float]) -> Mapping[str, Rows]:
        """Target -> (n, 2): expected ratio of its step to the anchor's, and the upper bound. `step_s` is on the anchor."""
        times = op_ms(profiles, step_s, self.groups)
        opinions = self.members.log_ratios(times, np.asarray(step_s, dtype=np.float64))
        found = {}
        for column, target in enumerate(self.targets):
            point = blended(opinions, self.blends[column], column)
            found[target] = np.exp(np.column_stack([point, point + self.uppers[column]]))
        return found


def blended(opinions: Mapping[str, Rows], names: Sequence[str], column: int) -> Column:
    """The mean log ratio of the named members for one target."""
    return np.asarray(np.mean([opinions[name][:, column] for name in names], axis=0))


def added_up(log_ratios: Rows, times_ms: Rows, step_s: Column) -> Rows:
    """Log ratios of whole steps from those of their groups of ops, (n, targets * groups), by adding up the ops' times."""
    n, groups = times_ms.shape
    each = np.exp(np.clip(log_ratios.reshape(n, -1, groups), -_MOST_LOG_RATIO, _MOST_LOG_RATIO))
    on_target = np.maximum((times_ms[:, None, :] + LEAST_MS) * each - LEAST_MS, 0.0).sum(axis=2)
    return _log_ratio(on_target, step_s)


def _log_ratio(target_ms: Rows, step_s: Column) -> Rows:
    return np.asarray(np.log(np.maximum(target_ms, 1e-6) / (1000.0 * step_s[:, None])))
