"""The trained members as plain numbers: each maps rows of features to one column per target.

They are stored as JSON inside the model and evaluated with numpy. Nothing here trains, and nothing is unpickled.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from gpuq.learn.transfer.features import Rows

Table = tuple[tuple[float, ...], ...]


class Tree(msgspec.Struct, frozen=True):
    """A tree as columns, root first. At node i, feature[i] <= threshold[i] goes left; a leaf has feature -1."""

    feature: tuple[int, ...]
    threshold: tuple[float, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    value: Table


class Forest(msgspec.Struct, frozen=True, dict=True, tag="forest"):
    """The mean of trees."""

    trees: tuple[Tree, ...]

    def predict(self, rows: Rows) -> Rows:
        """(n, features) -> (n, targets). All trees are descended at once."""
        roots, feature, threshold, left, right, value = self._arrays
        # scikit-learn compares in single precision; in double precision a row on a threshold could go the other way.
        single, number = rows.astype(np.float32), np.arange(len(rows))[:, None]
        at = np.broadcast_to(roots, (len(rows), len(roots)))
        while (feature[at] >= 0).any():
            # A leaf leads to itself.
            at = np.where(single[number, feature[at]] <= threshold[at], left[at], right[at])
        return np.asarray(value[at].mean(axis=1))

    @cached_property
    def _arrays(self) -> tuple[Any, ...]:
        """All trees' nodes one after the other: roots, then feature, threshold, left, right, value of each node."""
        roots = np.cumsum([0, *(len(tree.feature) for tree in self.trees[:-1])])
        leaf = np.concatenate([np.array(tree.feature) < 0 for tree in self.trees])
        itself = np.arange(len(leaf))
        left, right = (
            np.concatenate([np.array(getattr(tree, side)) + root for tree, root in zip(self.trees, roots, strict=True)])
            for side in ("left", "right")
        )
        return (
            roots,
            np.concatenate([tree.feature for tree in self.trees]),
            np.concatenate([tree.threshold for tree in self.trees]),
            np.where(leaf, itself, left),
            np.where(leaf, itself, right),
            np.concatenate([np.array(tree.value) for tree in self.trees]),
        )


class Kernel(msgspec.Struct, frozen=True, dict=True, tag="kernel"):
    """A Gaussian process with an exponential kernel: training rows and their weights.

    k(a, b) = exp(-d(a, b) / reach), d the root of the mean squared difference of standardised features.
    """

    mean: tuple[float, ...]
    scale: tuple[float, ...]
    reach: float
    points: Table
    weights: Table
    level: tuple[float, ...]

    def predict(self, rows: Rows) -> Rows:
        """(n, features) -> (n, targets)."""
        mean, scale, points, weights, level = self._arrays
        near = np.exp(-apart((rows - mean) / scale, points) / self.reach)
        return np.asarray(near @ weights + level)

    @cached_property
    def _arrays(self) -> tuple[Any, ...]:
        return tuple(np.array(part) for part in (self.mean, self.scale, self.points, self.weights, self.level))


def apart(one: Rows, other: Rows) -> Rows:
    """The root of the mean squared difference between each row of `one` and each of `other`."""
    squares = (one**2).sum(axis=1)[:, None] + (other**2).sum(axis=1)[None, :] - 2.0 * one @ other.T
    return np.asarray(np.sqrt(np.maximum(squares, 0.0) / one.shape[1]))
