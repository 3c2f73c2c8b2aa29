"""Classify traffic signs: images of 32x32 pixels in 43 classes, as in GTSRB, with a small convolutional network.

All data is in memory, so computing sets the pace: the network on one thread, and beside it a thread that turns, scales and
shrinks the pictures of the next batch. `--data synthetic` draws images of GTSRB's shape and value range: each class is a
pattern of its own under noise.
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
# The pictures as they come are larger than what the network looks at.
RAW = 64


def main(arguments: list[str] | None = None) -> int:
    """Train, and return the exit code."""
    parser = common.flags(__doc__ or "", batch_size=64, samples=8192, epochs=20)
    parser.add_argument("--model", choices=sorted(MODELS), default="cnn", help="the network")
    options = parser.parse_args(arguments)
    common.start(options)
    images, labels = synthetic(options.samples, options.seed)
    common.say(
        f"data: synthetic, {len(images)} images, seen as 32x32x3 from 0 to 1, in {CLASSES} classes (GTSRB's shape)"
    )
    model = MODELS[options.model]()
    model.compile("adam", "sparse_categorical_crossentropy", jit_compile=False)
    order = np.random.default_rng(options.seed)
    fetch = partial(augmented, images, labels, options.batch_size, order)
    return common.train(model, fetch, options)


def synthetic(samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Images of 64x64 bytes and labels: a coarse pattern per class, brighter or darker, under noise."""
    random = np.random.default_rng(seed)
    patterns = random.integers(0, 200, (CLASSES, 8, 8, 3)).repeat(RAW // 8, axis=1).repeat(RAW // 8, axis=2)
    labels = random.integers(0, CLASSES, samples)
    images = np.empty((samples, RAW, RAW, 3), np.uint8)
    for image, label in zip(images, labels, strict=True):
        noise = random.integers(-25, 26, (RAW, RAW, 3))
        image[:] = np.clip(patterns[label] * random.uniform(0.6, 1.2) + noise, 0, 255)
    return images, labels


def augmented(
    images: np.ndarray, labels: np.ndarray, size: int, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """A random batch at the network's size, from 0 to 1: each image turned, scaled and moved a little, under fresh noise.

    Signs are never mirrored: that would change what they mean.
    """
    chosen = random.integers(0, len(images), size)
    angle, scale = random.uniform(-0.25, 0.25, size), random.uniform(0.9, 1.1, size)
    turn = np.stack([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]).transpose(2, 0, 1)
    seen = _resampled(images[chosen], turn * scale[:, None, None], random.uniform(-6, 6, (size, 1, 2)))
    # Two by two points become one: the mean, and not every second, keeps fine detail from flickering.
    small = seen.reshape(size, SHAPE[0], 2, SHAPE[1], 2, 3).mean(axis=(2, 4), dtype=np.float32) / 255
    noise = random.standard_normal(small.shape, dtype=np.float32) * 0.02
    return np.clip(small + noise, 0, 1), labels[chosen]


def _resampled(images: np.ndarray, matrix: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Each image seen through its matrix and shift, by bilinear interpolation; the border is repeated outwards."""
    edge = images.shape[1] - 1
    middle = np.float32(edge / 2)
    lines = np.arange(edge + 1, dtype=np.float32) - middle
    grid = np.stack(np.meshgrid(lines, lines, indexing="ij"), -1).reshape(-1, 2)
    place = np.clip(grid @ matrix.astype(np.float32) + shift.astype(np.float32) + middle, 0, np.float32(edge - 0.001))
    corner = place.astype(np.int32)
    down, across = np.split(place - corner.astype(np.float32), 2, axis=-1)
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
