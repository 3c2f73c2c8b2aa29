"""The Keras member: only a benchmark trains it, so it is tested by `make soak`, in a process of its own."""

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
from gpuq.lab.public import profet_notebook
chance = np.random.default_rng(0)
rows = np.exp(chance.normal(size=(80, 3)))
targets = np.column_stack([rows.sum(axis=1), 3 * rows[:, 0] + 1])
found = profet_notebook.fit_network(rows, targets, steps=800)
again = profet_notebook.fit_network(rows, targets, steps=800)
predicted = found.predict(rows)
biases = found.weights[1::2]
layers = [tf.keras.layers.Dense(len(one), activation="relu") for one in biases[:-1]]
model = tf.keras.Sequential([tf.keras.layers.Input((3,)), *layers, tf.keras.layers.Dense(2)])
model.set_weights(found.weights)
keras = model(((rows - found.mean) / found.scale).astype("f4")).numpy() * found.unit
print(json.dumps({
    "units": [len(one) for one in biases],
    "error": float(np.mean(np.abs(predicted / targets - 1))),
    "mean": float(np.mean(np.abs(targets.mean(axis=0) / targets - 1))),
    "gap": float(np.abs(keras - predicted).max() / np.abs(predicted).max()),
    "same": all(np.array_equal(*pair) for pair in zip(found.weights, again.weights, strict=True)),
}))
"""


@pytest.mark.soak
def test_the_network_learns_is_repeatable_and_predicts_as_keras_does():
    if find_spec("tensorflow") is None:
        pytest.skip("TensorFlow comes with the `workloads` extra")
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["units"] == [128, 64, 32, 16, 2]
    assert found["error"] < 0.3 * found["mean"]
    assert found["gap"] < 1e-4
    assert found["same"]
