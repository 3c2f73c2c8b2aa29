"""A generative adversarial network (Goodfellow et al., 2014): a forger makes samples, a judge tells them from real ones.

The forger maps noise to samples, the judge maps samples to the probability that they are real. Each is trained through a
Keras model of its own that contains both networks and updates only one of them. So the same few lines train them under every
framework, and no sample leaves the device in between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from workloads import common

if TYPE_CHECKING:
    import keras

NOISE = 100
Batch = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Noise for the judge's turn, real samples, noise for the forger's turn."""


def batch(samples: np.ndarray, chosen: np.ndarray, random: np.random.Generator) -> Batch:
    """The chosen samples of bytes from -1 to 1, and noise for both turns."""
    noise = random.standard_normal((2, len(chosen), NOISE), dtype=np.float32)
    return noise[0], samples[chosen].astype(np.float32) / 127.5 - 1, noise[1]


def players(
    forger: keras.Model, judge: keras.Model, optimizer: Callable[[], keras.Optimizer]
) -> tuple[keras.Model, keras.Model]:
    """(judging, forging): models to train in turn, each with an optimizer of its own."""
    import keras
    from keras import ops

    class Player(keras.Model):
        """Contains both networks and trains one."""

        def __init__(self, inputs: object, outputs: object, plays: keras.Model) -> None:
            super().__init__(inputs=inputs, outputs=outputs)
            self.played = plays.name

        @property
        def trainable_variables(self) -> list[keras.Variable]:
            return self.get_layer(self.played).trainable_variables

        @property
        def non_trainable_variables(self) -> list[keras.Variable]:
            own = {id(variable) for variable in self.trainable_variables}
            return [variable for variable in self.variables if id(variable) not in own]

        @property
        def trainable_weights(self) -> list[keras.Variable]:
            return self.get_layer(self.played).trainable_weights

        @property
        def non_trainable_weights(self) -> list[keras.Variable]:
            own = {id(variable) for variable in self.trainable_weights}
            return [variable for variable in self.weights if id(variable) not in own]

    noise = keras.Input((NOISE,))
    real = keras.Input(judge.input_shape[1:])
    forged = forger(noise)
    judging = Player([noise, real], [judge(ops.stop_gradient(forged)), judge(real)], judge)
    forging = Player(noise, judge(forged), forger)
    judging.compile(optimizer(), ["binary_crossentropy", "binary_crossentropy"], jit_compile=common.jit())
    forging.compile(optimizer(), "binary_crossentropy", jit_compile=common.jit())
    return judging, forging


def play(judging: keras.Model, forging: keras.Model, data: Batch) -> float:
    """One turn of each; the loss is both players' together."""
    for_judge, real, for_forger = data
    no, yes = np.zeros((len(real), 1), np.float32), np.ones((len(real), 1), np.float32)
    judged = judging.train_on_batch([for_judge, real], [no, yes])
    return float(np.ravel(judged)[0]) + float(forging.train_on_batch(for_forger, yes))
