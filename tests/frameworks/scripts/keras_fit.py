"""`fit` of Keras on whatever backend there is: two epochs, accumulated gradients, a loss scale, several steps at once."""

import json

import keras
import numpy as np

keras.utils.set_random_seed(8)
x = np.random.default_rng(8).random((480, 4), "f")
y = x.sum(1, keepdims=True)


def trained(batches, **compiled):
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
    optimizer = compiled.pop("optimizer")
    model.compile(optimizer, "mse", **compiled)
    history = model.fit(x[: 4 * batches], y[: 4 * batches], batch_size=4, epochs=2, verbose=0)
    model.evaluate(x, y, verbose=0)
    return history.history["loss"] + [float(np.sum(weight)) for weight in model.get_weights()]


losses = trained(100, optimizer=keras.optimizers.Adam(1e-3))
losses += trained(40, optimizer=keras.optimizers.SGD(1e-3, gradient_accumulation_steps=2))
losses += trained(30, optimizer=keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(1e-3), initial_scale=2.0**8))
at_once = 1 if keras.backend.backend() == "torch" else 10
losses += trained(40, optimizer="adam", steps_per_execution=at_once)
losses += trained(20, optimizer="sgd", run_eagerly=True)
print(json.dumps({"steps": 2 * 100 + 2 * 40 // 2 + 2 * 30 + 2 * 40 + 2 * 20, "losses": losses}))
