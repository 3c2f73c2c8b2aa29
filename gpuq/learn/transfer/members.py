"""What was trained, as plain numbers: each member takes rows of features and gives one column per target.

Arrives: JSON from the shelf, or `fit`. Leaves: predictions, by numpy alone. Nothing here trains.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from gpuq.learn.transfer.features import Rows

Table = tuple[tuple[float, ...], ...]


class Linear(msgspec.Struct, frozen=True, tag="linear"):
    """A straight line on the first feature, as the notebook's on latency. One slope and intercept per target."""

    slope: tuple[float, ...]
    intercept: tuple[float, ...]

    def predict(self, rows: Rows) -> Rows:
        """(n, features) -> (n, targets)."""
        return np.asarray(rows[:, :1] * np.array(self.slope) + np.array(self.intercept))


class Layer(msgspec.Struct, frozen=True):
    """One dense layer: weights (inputs x units) and biases."""

    weights: Table
    biases: tuple[float, ...]


class Network(msgspec.Struct, frozen=True, tag="network"):
    """Dense layers with rectifiers between; inputs standardised by `mean` and `scale`, outputs multiplied by `unit`."""

    mean: tuple[float, ...]
    scale: tuple[float, ...]
    unit: tuple[float, ...]
    layers: tuple[Layer, ...]

    def predict(self, rows: Rows) -> Rows:
        """(n, features) -> (n, targets)."""
        flow: Any = (rows - np.array(self.mean)) / np.array(self.scale)
        for index, layer in enumerate(self.layers):
            if index:
                flow = np.maximum(flow, 0.0)
            flow = flow @ np.array(layer.weights) + np.array(layer.biases)
        return np.asarray(flow * np.array(self.unit))


class Tree(msgspec.Struct, frozen=True):
    """A tree as columns, root first. At node i: feature[i] <= threshold[i] goes left; a leaf has feature -1."""

    feature: tuple[int, ...]
    threshold: tuple[float, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    value: Table


class Forest(msgspec.Struct, frozen=True, tag="forest"):
    """The mean of trees."""

    trees: tuple[Tree, ...]

    def predict(self, rows: Rows) -> Rows:
        """(n, features) -> (n, targets)."""
        return np.asarray(np.mean([_walk(tree, rows) for tree in self.trees], axis=0))


class Kernel(msgspec.Struct, frozen=True, tag="kernel"):
    """A Gaussian process with an exponential kernel: measured rows, and how much each weighs.

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
        standard = (rows - np.array(self.mean)) / np.array(self.scale)
        near = np.exp(-apart(standard, np.array(self.points)) / self.reach)
        return np.asarray(near @ np.array(self.weights) + np.array(self.level))


def apart(one: Rows, other: Rows) -> Rows:
    """The root of the mean squared difference of each row of `one` to each of `other`."""
    squares = (one**2).sum(axis=1)[:, None] + (other**2).sum(axis=1)[None, :] - 2.0 * one @ other.T
    return np.asarray(np.sqrt(np.maximum(squares, 0.0) / one.shape[1]))


def _walk(tree: Tree, rows: Rows) -> Rows:
    feature, threshold = np.array(tree.feature), np.array(tree.threshold)
    left, right = np.array(tree.left), np.array(tree.right)
    at = np.zeros(len(rows), dtype=np.int64)
    while True:
        inner = np.flatnonzero(feature[at] >= 0)
        if not len(inner):
            return np.asarray(np.array(tree.value)[at])
        here = at[inner]
        # scikit-learn compares in single precision, so a row that fell on a threshold must fall the same way here.
        goes_left = rows[inner, feature[here]].astype(np.float32) <= threshold[here]
        at[inner] = np.where(goes_left, left[here], right[here])
