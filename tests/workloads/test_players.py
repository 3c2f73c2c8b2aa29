"""Each player's turn changes its own network and leaves the other alone. In `test_every_model.py`'s time: it compiles."""

import subprocess
import sys

import pytest

TURNS = """
import os
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
import keras, numpy as np
from workloads import dcgan, gan, players
forger, judge = gan.build_forger(), dcgan.build_judge()
judging, forging = players.players(forger, judge, lambda: keras.optimizers.Adam(1e-3))
random = np.random.default_rng(0)
noise, real, again = players.batch(random.integers(0, 256, (8, 28, 28, 1), np.uint8), np.arange(4), random)
def changed(turn):
    before = [model.get_weights() for model in (forger, judge)]
    turn()
    after = [model.get_weights() for model in (forger, judge)]
    return [any((a != b).any() for a, b in zip(*both)) for both in zip(before, after)]
yes, no = np.ones((4, 1), "f"), np.zeros((4, 1), "f")
assert changed(lambda: judging.train_on_batch([noise, real], [no, yes])) == [False, True]
assert changed(lambda: forging.train_on_batch(again, yes)) == [True, False]
assert changed(lambda: players.play(judging, forging, (noise, real, again))) == [True, True]
"""


@pytest.mark.soak
def test_a_turn_changes_only_the_network_whose_turn_it_is():
    done = subprocess.run([sys.executable, "-c", TURNS], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
