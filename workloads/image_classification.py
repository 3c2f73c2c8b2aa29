"""Classify traffic signs (GTSRB, 43 classes) with a small convolutional network or a well-known large one, from scratch.

All data is in memory, so computing sets the pace: the network, and beside it a thread that turns, scales and moves the
pictures of the next batch. The small `cnn` looks at 32x32 pixels; the others get 64x64, which their first layer brings to
`--image-size`, on the device. With `--augment device` the pictures are turned there too, which a fast GPU wants.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if not __package__:  # run as a file: the other modules lie beside it
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from workloads import common
from workloads.datasets import gtsrb

if TYPE_CHECKING:
    import keras

SMALL = 32
IMAGE_SIZE = 96
LEAST_SIZE = {"inception_v3": 75}
TURN_RADIANS, SCALE, MOVE_PIXELS = 0.25, 0.1, 6


def main(arguments: list[str] | None = None) -> int:
    """Train, and return the exit code."""
    parser = common.flags(__doc__ or "", batch_size=64, samples=8192, epochs=20)
    parser.add_argument("--model", choices=["cnn", *sorted(LARGE)], default="cnn", help="the network")
    parser.add_argument(
        "--image-size",
        type=common.positive,
        default=IMAGE_SIZE,
        metavar="N",
        help="pixels a side that a large network sees; at least 75 for inception_v3, 32 for the others",
    )
    parser.add_argument("--augment", choices=["host", "device"], default="host", help="where pictures are turned")
    options = parser.parse_args(arguments)
    least = LEAST_SIZE.get(options.model, SMALL)
    if options.image_size < least:
        parser.error(f"argument --image-size: {options.model} sees nothing smaller than {least} pixels")
    images, labels = gtsrb.images(options.data, options.samples, options.seed)
    common.start(options)
    make = partial(augmented, images, labels, SMALL if options.model == "cnn" else gtsrb.SIDE)
    if options.augment == "device":
        make = partial(plain, images, labels)
    model = build(options.model, options.image_size, options.augment == "device")
    model.compile("adam", "sparse_categorical_crossentropy", jit_compile=common.jit())
    return common.fit(model, make, len(images), options)


def plain(
    images: np.ndarray, labels: np.ndarray, chosen: np.ndarray, _: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The chosen images as they are, in bytes."""
    return images[chosen], labels[chosen]


def augmented(
    images: np.ndarray, labels: np.ndarray, side: int, chosen: np.ndarray, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The chosen images at `side` pixels, from 0 to 1: each turned, scaled and moved a little, under fresh noise.

    Signs are never mirrored: that would change what they mean.
    """
    size = len(chosen)
    angle = random.uniform(-TURN_RADIANS, TURN_RADIANS, size)
    scale = random.uniform(1 - SCALE, 1 + SCALE, size)
    turn = np.stack([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]).transpose(2, 0, 1)
    move = random.uniform(-MOVE_PIXELS, MOVE_PIXELS, (size, 1, 2))
    seen = _resampled(images[chosen], turn * scale[:, None, None], move)
    # Several points become one: the mean, and not every second, keeps fine detail from flickering.
    points = gtsrb.SIDE // side
    small = seen.reshape(size, side, points, side, points, 3).mean(axis=(2, 4), dtype=np.float32) / 255
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


def build(name: str, image_size: int = IMAGE_SIZE, augment: bool = False) -> keras.Model:
    """The network called `name`; with `augment` it takes bytes and turns the pictures itself while it trains."""
    import keras
    from keras import layers

    given = SMALL if name == "cnn" and not augment else gtsrb.SIDE
    wanted = SMALL if name == "cnn" else image_size
    image = x = keras.Input((given, given, 3))
    if augment:
        x = layers.Rescaling(1 / 255)(x)
        x = layers.RandomRotation(TURN_RADIANS / (2 * np.pi), fill_mode="nearest")(x)
        x = layers.RandomZoom(SCALE, fill_mode="nearest")(x)
        x = layers.RandomTranslation(MOVE_PIXELS / gtsrb.SIDE, MOVE_PIXELS / gtsrb.SIDE, fill_mode="nearest")(x)
    if wanted != given:
        x = layers.Resizing(wanted, wanted)(x)
    x = _cnn(x) if name == "cnn" else LARGE[name](x)
    # Probabilities in 32 bits: the logarithm of a small one does not fit into fewer.
    return keras.Model(image, layers.Dense(gtsrb.CLASSES, activation="softmax", dtype="float32")(x), name=name)


def _cnn(x: keras.KerasTensor) -> keras.KerasTensor:
    """Three blocks of convolutions, each halving the image, then a dense layer."""
    from keras import layers

    for filters in (32, 64, 128):
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        x = layers.MaxPooling2D()(x)
    return layers.Dense(256, activation="relu")(layers.Flatten()(x))


def _known(constructor: str, **flags: object) -> Callable[[keras.KerasTensor], keras.KerasTensor]:
    """A network of `keras.applications` without its head and with random weights, for pictures from 0 to 1."""

    def features(x: keras.KerasTensor) -> keras.KerasTensor:
        import keras

        network = getattr(keras.applications, constructor)
        shape = tuple(x.shape[1:])
        return network(include_top=False, weights=None, input_shape=shape, pooling="avg", **flags)(x)

    return features


def _nasnet_mobile(x: keras.KerasTensor) -> keras.KerasTensor:
    import keras

    if keras.backend.backend() != "torch":
        return _known("NASNetMobile")(x)
    # Keras refuses it under PyTorch, because its pretrained weights predict wrongly there (keras#18451); none are used here.
    from keras.src.applications.nasnet import NASNet

    sizes = {"penultimate_filters": 1056, "num_blocks": 4, "stem_block_filters": 32, "filter_multiplier": 2}
    shape = tuple(x.shape[1:])
    return NASNet(shape, **sizes, skip_reduction=False, include_top=False, weights=None, pooling="avg")(x)


LARGE = {
    "efficientnet_v2_b0": _known("EfficientNetV2B0", include_preprocessing=False),
    "efficientnet_v2_s": _known("EfficientNetV2S", include_preprocessing=False),
    "inception_v3": _known("InceptionV3"),
    "mobilenet": _known("MobileNet"),
    "nasnet_mobile": _nasnet_mobile,
    "resnet50": _known("ResNet50"),
}

if __name__ == "__main__":
    sys.exit(main())
