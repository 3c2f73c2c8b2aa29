"""The notebook's Keras network. The only module of gpuq that imports TensorFlow; imported by the trainer alone.

Layers of 128, 64, 32, 16 units with rectifiers; loss = absolute percentage error + squared error; Adam, its rate decayed from
0.001 by 0.9 every 1,000 steps, as in the notebook. Unlike there, inputs are standardised and targets divided by their median:
otherwise the squared error of the longest steps dominates. The result is plain numbers; the same rows and seed give the same
network.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from gpuq.learn.transfer.features import Rows
from gpuq.learn.transfer.members import DenseNetwork, Layer

UNITS = (128, 64, 32, 16)
BATCH = 16
STEPS = 3600


def fit(rows: Rows, targets: Rows, *, seed: int = 0, steps: int = STEPS) -> DenseNetwork:
    """Train on (n, features) and (n, targets), all targets above 0. Needs TensorFlow."""
    chance = np.random.default_rng(seed)
    mean, spread, unit = rows.mean(axis=0), rows.std(axis=0), np.median(targets, axis=0)
    scale = np.where(spread > 1e-9, spread, 1.0)
    # Row indices of each step, (steps, batch): every row once before any is repeated.
    batch = min(BATCH, len(rows))
    orders = [chance.permutation(len(rows)) for _ in range(-(-steps * batch // len(rows)))]
    batches = np.concatenate(orders)[: steps * batch].reshape(steps, batch)
    # Glorot's uniform start and zeros for the biases, as in Keras; drawn here so that the seed decides.
    start: list[Any] = []
    for before, after in pairwise([rows.shape[1], *UNITS, targets.shape[1]]):
        limit = np.sqrt(6.0 / (before + after))
        start += [chance.uniform(-limit, limit, (before, after)), np.zeros(after)]
    train = _trainer(rows.shape[1], targets.shape[1])
    weights = train((rows - mean) / scale, targets / unit, batches, start)
    layers = [
        Layer(tuple(tuple(map(float, row)) for row in weights[i]), tuple(map(float, weights[i + 1])))
        for i in range(0, len(weights), 2)
    ]
    return DenseNetwork(_plain(mean), _plain(scale), _plain(unit), tuple(layers))


@lru_cache(maxsize=8)
def _trainer(inputs: int, outputs: int) -> Callable[[Rows, Rows, Any, list[Any]], list[Any]]:
    """A training loop for networks of this shape, traced once and used for all folds, which differ in their rows alone."""
    import tensorflow as tf

    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [layers.Input((inputs,)), *(layers.Dense(n, activation="relu") for n in UNITS), layers.Dense(outputs)]
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


def _plain(values: Any) -> tuple[float, ...]:
    return tuple(float(value) for value in values)
