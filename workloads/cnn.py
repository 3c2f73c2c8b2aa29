"""Recognise handwritten digits (MNIST, 28x28 pixels) with the tutorial's small CNN: three convolutions, two dense layers."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if not __package__:  # run as a file: the other modules lie beside it
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from workloads import common
from workloads.datasets import mnist

if TYPE_CHECKING:
    import keras


def main(arguments: list[str] | None = None) -> int:
    """Train, and return the exit code."""
    parser = common.flags(__doc__ or "", batch_size=64, samples=8192, epochs=20)
    parser.add_argument("--model", choices=["cnn"], default="cnn", help="the network")
    options = parser.parse_args(arguments)
    digits, labels = mnist.digits(options.data, options.samples, options.seed)
    common.start(options)
    model = build()
    model.compile("adam", "sparse_categorical_crossentropy", jit_compile=common.jit())
    return common.fit(model, partial(batch, digits, labels), len(digits), options)


def batch(
    digits: np.ndarray, labels: np.ndarray, chosen: np.ndarray, _: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The chosen digits from 0 to 1."""
    return digits[chosen].astype(np.float32) / 255, labels[chosen]


def build() -> keras.Model:
    """Convolutions of 32, 64 and 64 filters, the first two halved, and a dense layer of 64."""
    import keras
    from keras import layers

    return keras.Sequential(
        [
            keras.Input((mnist.SIDE, mnist.SIDE, 1)),
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, activation="relu"),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(mnist.CLASSES, activation="softmax", dtype="float32"),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
