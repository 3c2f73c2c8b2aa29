"""A custom loop on TensorFlow: GradientTape, compiled and eager, two optimizers."""

import json

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(9)
x = tf.constant(np.random.default_rng(9).random((16, 4), "f"))
parts = [keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)]) for _ in range(2)]
optimizers = [keras.optimizers.Adam(1e-2), keras.optimizers.SGD(1e-2)]


def step(part, optimizer):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((part(x) - tf.reduce_sum(x, 1, keepdims=True)) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, part.trainable_variables), part.trainable_variables, strict=True))
    return loss


for part, optimizer in zip(parts, optimizers, strict=True):
    optimizer.build(part.trainable_variables)
compiled = tf.function(lambda: step(parts[0], optimizers[0]))
losses = []
for _ in range(120):
    losses.append(float(compiled()))
    losses.append(float(step(parts[1], optimizers[1])))
print(json.dumps({"steps": 240, "losses": losses}))
