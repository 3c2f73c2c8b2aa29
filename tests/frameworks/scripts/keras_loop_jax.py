"""A custom loop of Keras on JAX: `stateless_apply` in a compiled step, and without compiling."""

import json

import jax
import keras
import numpy as np

keras.utils.set_random_seed(10)
x = np.random.default_rng(10).random((16, 4), "f")
y = x.sum(1, keepdims=True)
model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
optimizer = keras.optimizers.Adam(1e-2)
optimizer.build(model.trainable_variables)


def loss_of(trainable, fixed, x, y):
    predicted, fixed = model.stateless_call(trainable, fixed, x, training=True)
    return keras.ops.mean((predicted - y) ** 2), fixed


def step(state, x, y):
    trainable, fixed, slots = state
    (loss, fixed), gradients = jax.value_and_grad(loss_of, has_aux=True)(trainable, fixed, x, y)
    trainable, slots = optimizer.stateless_apply(slots, gradients, trainable)
    return loss, (trainable, fixed, slots)


state = (
    [v.value for v in model.trainable_variables],
    [v.value for v in model.non_trainable_variables],
    [v.value for v in optimizer.variables],
)
compiled = jax.jit(step, donate_argnums=0)
losses = []
for number in range(130):
    loss, state = (compiled if number < 110 else step)(state, x, y)
    losses.append(float(loss))
print(json.dumps({"steps": 130, "losses": losses}))
