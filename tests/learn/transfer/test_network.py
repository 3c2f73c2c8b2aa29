"""The Keras member. The only test here that imports TensorFlow, in a process of its own."""

import json
import subprocess
import sys
from importlib.util import find_spec

import pytest

# TensorFlow brings Keras, which would import Matplotlib and scikit-learn; that takes a second, and nothing here uses them.
CODE = """
import json, sys
sys.modules.update(dict.fromkeys(("matplotlib", "sklearn")))
import numpy as np
import tensorflow as tf
from gpuq.learn.transfer import network
chance = np.random.default_rng(0)
rows = np.exp(chance.normal(size=(80, 3)))
targets = np.column_stack([rows.sum(axis=1), 3 * rows[:, 0] + 1])
found = network.fit(rows, targets, steps=800)
again = network.fit(rows, targets, steps=800)
served = found.predict(rows)
layers = [tf.keras.layers.Dense(len(one.biases), activation="relu") for one in found.layers[:-1]]
layers.append(tf.keras.layers.Dense(2))
model = tf.keras.Sequential([tf.keras.layers.Input((3,)), *layers])
model.set_weights([np.array(part) for one in found.layers for part in (one.weights, one.biases)])
standard = (rows - np.array(found.mean)) / np.array(found.scale)
keras = model(standard.astype("f4")).numpy() * np.array(found.unit)
print(json.dumps({
    "units": [len(one.biases) for one in found.layers],
    "error": float(np.mean(np.abs(served / targets - 1))),
    "mean": float(np.mean(np.abs(targets.mean(axis=0) / targets - 1))),
    "gap": float(np.abs(keras - served).max() / np.abs(served).max()),
    "same": found == again,
}))
"""


def test_the_network_learns_is_repeatable_and_is_served_by_numpy_as_keras_serves_it():
    if find_spec("tensorflow") is None:
        pytest.skip("TensorFlow comes with the `train` extra")
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["units"] == [128, 64, 32, 16, 2]
    assert found["error"] < 0.3 * found["mean"]
    assert found["gap"] < 1e-4
    assert found["same"]
