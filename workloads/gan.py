"""Draw digits like those of MNIST with the tutorial's plain GAN: as `dcgan.py`, without batch normalisation."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if not __package__:  # run as a file: the other modules lie beside it
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from workloads import common, dcgan, players
from workloads.datasets import mnist

if TYPE_CHECKING:
    import keras


def main(arguments: list[str] | None = None) -> int:
    """Train, and return the exit code."""
    parser = common.flags(__doc__ or "", batch_size=64, samples=8192, epochs=20)
    parser.add_argument("--model", choices=["gan"], default="gan", help="the networks")
    options = parser.parse_args(arguments)
    digits, _ = mnist.digits(options.data, options.samples, options.seed)
    common.start(options)
    import keras

    models = players.players(build_forger(), dcgan.build_judge(), lambda: keras.optimizers.Adam(2e-4, beta_1=0.5))
    make = partial(players.batch, digits)
    return common.train(partial(players.play, *models), make, len(digits), options, common.Trained(models))


def build_forger() -> keras.Model:
    """From 100 numbers of noise to a digit from -1 to 1."""
    import keras
    from keras import layers

    noise = keras.Input((players.NOISE,))
    x = layers.LeakyReLU(negative_slope=0.2)(layers.Dense(7 * 7 * 256)(noise))
    x = layers.Reshape((7, 7, 256))(x)
    for filters, stride in ((128, 1), (64, 2)):
        x = layers.Conv2DTranspose(filters, 5, strides=stride, padding="same")(x)
        x = layers.LeakyReLU(negative_slope=0.2)(x)
    x = layers.Conv2DTranspose(1, 5, strides=2, padding="same", activation="tanh", dtype="float32")(x)
    return keras.Model(noise, x, name="forger")


if __name__ == "__main__":
    sys.exit(main())
