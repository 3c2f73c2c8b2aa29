"""PROFET's own model of step times, as the notebook in its release trains it: what gpuq's carriers are compared with.

The median of three members, each on the step's milliseconds: a Keras network, a random forest, and a straight line on the step
alone. Needs scikit-learn and TensorFlow (the extras `lab` and `workloads`).

The network has layers of 128, 64, 32, 16 units with rectifiers; loss = absolute percentage error + squared error; Adam, its rate
decayed from 0.001 by 0.9 every 1,000 steps, as in the notebook. Unlike there, inputs are standardised and targets divided by
their median: otherwise the squared error of the longest steps dominates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from gpuq.learn.transfer.features import Column, Rows

_UNITS = (128, 64, 32, 16)
_BATCH = 16
_TREES = 100


def features(times_ms: Rows, step_s: Column) -> Rows:
    """The step's milliseconds and each group's. (n, groups + 2)."""
    return np.column_stack([1000.0 * step_s, times_ms])


def opinions(rows: Rows, target_ms: Rows, asked: Rows, *, seed: int = 0) -> dict[str, Rows]:
    """Milliseconds of the `asked` rows on each target by each member, (n, targets) per name.

    The members are trained on `rows` (n, features) and `target_ms` (n, targets). The same rows and seed give the same answer.
    """
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.linear_model import LinearRegression

    return {
        "network": fit_network(rows, target_ms, seed=seed).predict(asked),
        "forest": RandomForestRegressor(_TREES, random_state=seed).fit(rows, target_ms).predict(asked),
        "linear": LinearRegression().fit(rows[:, :1], target_ms).predict(asked[:, :1]),
    }


@dataclass(frozen=True)
class Network:
    """The trained network: `mean` and `scale` standardise its inputs, `unit` multiplies its outputs."""

    mean: Any
    scale: Any
    unit: Any
    weights: list[Any]
    """Of each layer its weights (inputs x units) and its biases."""

    def predict(self, rows: Rows) -> Rows:
        """(n, features) -> (n, targets)."""
        flow: Any = (rows - self.mean) / self.scale
        for place in range(0, len(self.weights), 2):
            if place:
                flow = np.maximum(flow, 0.0)
            flow = flow @ self.weights[place] + self.weights[place + 1]
        return np.asarray(flow * self.unit)


def fit_network(rows: Rows, targets: Rows, *, seed: int = 0, steps: int = 3600) -> Network:
    """Train on (n, features) and (n, targets), all targets above 0."""
    chance = np.random.default_rng(seed)
    mean, spread, unit = rows.mean(axis=0), rows.std(axis=0), np.median(targets, axis=0)
    scale = np.where(spread > 1e-9, spread, 1.0)
    # Row indices of each step, (steps, batch): every row once before any is repeated.
    batch = min(_BATCH, len(rows))
    orders = [chance.permutation(len(rows)) for _ in range(-(-steps * batch // len(rows)))]
    batches = np.concatenate(orders)[: steps * batch].reshape(steps, batch)
    # Glorot's uniform start and zeros for the biases, as in Keras; drawn here so that the seed decides.
    start: list[Any] = []
    for before, after in pairwise([rows.shape[1], *_UNITS, targets.shape[1]]):
        limit = np.sqrt(6.0 / (before + after))
        start += [chance.uniform(-limit, limit, (before, after)), np.zeros(after)]
    train = _trainer(rows.shape[1], targets.shape[1])
    return Network(mean, scale, unit, train((rows - mean) / scale, targets / unit, batches, start))


@lru_cache(maxsize=8)
def _trainer(inputs: int, outputs: int) -> Callable[[Rows, Rows, Any, list[Any]], list[Any]]:
    """A training loop for networks of this shape, traced once and used for all folds, which differ in their rows alone."""
    import tensorflow as tf

    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [layers.Input((inputs,)), *(layers.Dense(n, activation="relu") for n in _UNITS), layers.Dense(outputs)]
    )
    rate = tf.keras.optimizers.schedules.ExponentialDecay(0.001, decay_steps=1000, decay_rate=0.9)
    optimizer = tf.keras.optimizers.Adam(rate)
    optimizer.build(model.trainable_variables)
    fresh = [variable.numpy() for variable in optimizer.variables]

    signature = [tf.TensorSpec((None, inputs)), tf.TensorSpec((None, outputs)), tf.TensorSpec((None, None), tf.int32)]

    @tf.function(input_signature=signature)  # type: ignore[untyped-decorator, unused-ignore]
    def loop(rows: Any, targets: Any, batches: Any) -> None:
        for i in tf.range(tf.shape(batches)[0]):
            truth = tf.gather(targets, batches[i])
            with tf.GradientTape() as tape:
                gap = model(tf.gather(rows, batches[i]), training=True) - truth
                loss = tf.reduce_mean(100.0 * tf.abs(gap) / truth + tf.square(gap))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    def train(rows: Rows, targets: Rows, batches: Any, start: list[Any]) -> list[Any]:
        for variable, value in zip(optimizer.variables, fresh, strict=True):
            variable.assign(value)
        for variable, value in zip(model.trainable_variables, start, strict=True):
            variable.assign(value)
        loop(tf.constant(rows, tf.float32), tf.constant(targets, tf.float32), tf.constant(batches, tf.int32))
        return [variable.numpy() for variable in model.trainable_variables]

    return train
