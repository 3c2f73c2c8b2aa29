"""Draw digits like those of MNIST with a deep convolutional GAN (Radford et al., 2016), in the sizes of TensorFlow's tutorial.

In a step the judge sees real and drawn digits, then the forger learns from what the judge says of new ones. The loss is the
sum of both, and says little about how good the digits are.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if not __package__:  # run as a file: the other modules lie beside it
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from workloads import common, players
from workloads.datasets import mnist

if TYPE_CHECKING:
    import keras


def main(arguments: list[str] | None = None) -> int:
    """Train, and return the exit code."""
    parser = common.flags(__doc__ or "", batch_size=256, samples=8192, epochs=50)
    parser.add_argument("--model", choices=["dcgan"], default="dcgan", help="the networks")
    options = parser.parse_args(arguments)
    digits, _ = mnist.digits(options.data, options.samples, options.seed)
    common.start(options)
    import keras

    models = players.players(build_forger(), build_judge(), lambda: keras.optimizers.Adam(1e-4))
    make = partial(players.batch, digits)
    return common.train(partial(players.play, *models), make, len(digits), options, common.Trained(models))


def build_forger() -> keras.Model:
    """From 100 numbers of noise to a digit from -1 to 1, by transposed convolutions."""
    import keras
    from keras import layers

    x = noise = keras.Input((players.NOISE,))
    x = layers.Dense(7 * 7 * 256, use_bias=False)(x)
    x = layers.Reshape((7, 7, 256))(layers.LeakyReLU()(layers.BatchNormalization()(x)))
    for filters, stride in ((128, 1), (64, 2)):
        x = layers.Conv2DTranspose(filters, 5, strides=stride, padding="same", use_bias=False)(x)
        x = layers.LeakyReLU()(layers.BatchNormalization()(x))
    x = layers.Conv2DTranspose(1, 5, strides=2, padding="same", use_bias=False, activation="tanh", dtype="float32")(x)
    return keras.Model(noise, x, name="forger")


def build_judge() -> keras.Model:
    """From a digit to the probability that it is a real one."""
    import keras
    from keras import layers

    x = digit = keras.Input((mnist.SIDE, mnist.SIDE, 1))
    for filters in (64, 128):
        x = layers.Conv2D(filters, 5, strides=2, padding="same")(x)
        x = layers.Dropout(0.3)(layers.LeakyReLU()(x))
    x = layers.Dense(1, activation="sigmoid", dtype="float32")(layers.Flatten()(x))
    return keras.Model(digit, x, name="judge")


if __name__ == "__main__":
    sys.exit(main())
