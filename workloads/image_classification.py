"""Classify traffic signs: images of 32x32 pixels in 43 classes, as in GTSRB, with a small convolutional network.

All data is in memory, so the network sets the pace: this is the compute-bound workload.
`--data synthetic` draws images of GTSRB's shape and value range: each class is a pattern of its own under noise.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from workloads import common

if TYPE_CHECKING:
    import keras

CLASSES = 43
SHAPE = (32, 32, 3)


def main(arguments: list[str] | None = None) -> int:
    """Train, and return the exit code."""
    parser = common.flags(__doc__ or "", batch_size=64, samples=8192, epochs=20)
    parser.add_argument("--model", choices=sorted(MODELS), default="cnn", help="the network")
    options = parser.parse_args(arguments)
    common.start(options)
    images, labels = synthetic(options.samples, options.seed)
    common.say(f"data: synthetic, {len(images)} images of 32x32x3 in {CLASSES} classes, values 0 to 1 (GTSRB's shape)")
    model = MODELS[options.model]()
    model.compile("adam", "sparse_categorical_crossentropy", jit_compile=False)
    order = np.random.default_rng(options.seed)
    fetch = partial(augmented, images, labels, options.batch_size, order)
    return common.train(model, fetch, options)


def synthetic(samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels: a smooth pattern per class, shifted in brightness, under noise."""
    random = np.random.default_rng(seed)
    patterns = random.random((CLASSES, 8, 8, 3), dtype=np.float32).repeat(4, axis=1).repeat(4, axis=2)
    labels = random.integers(0, CLASSES, samples)
    brightness = random.uniform(0.5, 1.0, (samples, 1, 1, 1)).astype(np.float32)
    noise = random.normal(0.0, 0.2, (samples, *SHAPE)).astype(np.float32)
    return np.clip(patterns[labels] * brightness + noise, 0.0, 1.0), labels


def augmented(
    images: np.ndarray, labels: np.ndarray, size: int, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """A random batch, each image turned, scaled and moved a little. Signs are never mirrored: it would change them."""
    chosen = random.integers(0, len(images), size)
    angle, scale = random.uniform(-0.25, 0.25, size), random.uniform(0.9, 1.1, size)
    turn = np.stack([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]).transpose(2, 0, 1)
    shift = random.uniform(-3, 3, (size, 1, 2))
    return _resampled(images[chosen], turn * scale[:, None, None], shift), labels[chosen]


def _resampled(images: np.ndarray, matrix: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Each image seen through its matrix and shift, by bilinear interpolation; the border is repeated outwards."""
    edge = SHAPE[0] - 1
    grid = np.stack(np.meshgrid(np.arange(edge + 1), np.arange(edge + 1), indexing="ij"), -1).reshape(-1, 2) - edge / 2
    place = np.clip(grid @ matrix + shift + edge / 2, 0, edge - 0.001)
    corner = place.astype(np.int32)
    down, across = np.split((place - corner).astype(np.float32), 2, axis=-1)
    number = np.arange(len(images))[:, None]
    at = [[images[number, corner[..., 0] + y, corner[..., 1] + x] for x in (0, 1)] for y in (0, 1)]
    top, bottom = (left * (1 - across) + right * across for left, right in at)
    seen: np.ndarray = (top * (1 - down) + bottom * down).reshape(images.shape)
    return seen


def build_cnn() -> keras.Model:
    """Three blocks of convolutions, each halving the image, then two dense layers."""
    import keras
    from keras import layers

    blocks = [
        layer
        for filters in (32, 64, 128)
        for layer in (
            layers.Conv2D(filters, 3, padding="same", activation="relu"),
            layers.Conv2D(filters, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
        )
    ]
    head = [layers.Flatten(), layers.Dense(256, activation="relu"), layers.Dense(CLASSES, activation="softmax")]
    return keras.Sequential([keras.Input(SHAPE), *blocks, *head])


MODELS = {"cnn": build_cnn}

if __name__ == "__main__":
    sys.exit(main())
