"""Outline pets (Oxford-IIIT Pet, photographs of 128x128 pixels with a map of three classes) with a U-Net.

The samples lie on disk, one compressed file each, and every batch is read and unpacked again: with slow storage this is
the input-bound workload. `--storage-mbps` gives the reader the pace of slow shared storage: no more bytes per second
than that, with half a second of reading ahead.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if not __package__:  # run as a file: the other modules lie beside it
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from workloads import common
from workloads.datasets import pets

if TYPE_CHECKING:
    import keras


def main(arguments: list[str] | None = None) -> int:
    """Train, and return the exit code."""
    parser = common.flags(__doc__ or "", batch_size=8, samples=256, epochs=20)
    parser.add_argument("--model", choices=sorted(MODELS), default="unet", help="the network")
    parser.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="folder of the files made for training; a temporary one if not given",
    )
    parser.add_argument(
        "--storage-mbps", type=common.amount, default=0, metavar="MB", help="pace of reading, MB/s; 0: full speed"
    )
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="segmentation-") as scratch:
        files = pets.files(options.data, options.samples, options.seed, options.data_dir or Path(scratch))
        common.start(options)
        return _train(files, options)


def _train(files: list[Path], options: argparse.Namespace) -> int:
    if options.storage_mbps:
        common.say(f"files are read at {options.storage_mbps:g} MB/s, as from slow shared storage")
    model = MODELS[options.model]()
    model.compile("adam", "sparse_categorical_crossentropy", jit_compile=common.jit())
    make = partial(batch, files, Reader(options.storage_mbps * 1e6))
    return common.fit(model, make, len(files), options)


class Reader:
    """Reads whole files no faster than `bytes_per_s` (0: no limit), however many threads ask."""

    def __init__(self, bytes_per_s: float) -> None:
        self.pace = common.Pace(bytes_per_s)

    def read(self, file: Path) -> tuple[np.ndarray, np.ndarray]:
        """Image and mask in one file."""
        try:
            with file.open("rb") as stream:
                self.pace.wait(os.fstat(stream.fileno()).st_size)
                return pets.read(stream)
        except (OSError, ValueError) as error:
            raise SystemExit(
                f"cannot read {file}: {error}. Remove {file.parent}: the next start makes it again."
            ) from error


def batch(
    files: list[Path], reader: Reader, chosen: np.ndarray, _: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The chosen samples from the disk: images from 0 to 1, masks of class numbers, pixel after pixel."""
    samples = [reader.read(files[number]) for number in chosen]
    images, masks = (np.stack(arrays) for arrays in zip(*samples, strict=True))
    return images.astype(np.float32) / 255.0, masks.reshape(len(masks), -1).astype(np.int32)


def build_unet(filters: tuple[int, ...] = (8, 16, 32)) -> keras.Model:
    """As many levels down as `filters` has numbers, and up again, each joined with its level on the way down."""
    import keras
    from keras import layers

    image = x = keras.Input((pets.SIZE, pets.SIZE, 3))
    skipped = []
    for width in filters[:-1]:
        x = layers.Conv2D(width, 3, padding="same", activation="relu")(x)
        skipped.append((x, width))
        x = layers.MaxPooling2D()(x)
    x = layers.Conv2D(filters[-1], 3, padding="same", activation="relu")(x)
    for level, width in reversed(skipped):
        x = layers.Concatenate()([layers.UpSampling2D()(x), level])
        x = layers.Conv2D(width, 3, padding="same", activation="relu")(x)
    return _outlined(image, x)


def build_unet_wide() -> keras.Model:
    """The size of Ronneberger et al. (2015): five levels of 64 to 1,024 channels."""
    return build_unet((64, 128, 256, 512, 1024))


def build_unet_mobilenet() -> keras.Model:
    """MobileNetV2 on the way down, frozen, and transposed convolutions on the way up, as in the seed and its tutorial."""
    import keras
    from keras import layers

    image = keras.Input((pets.SIZE, pets.SIZE, 3))
    known = keras.applications.MobileNetV2(include_top=False, weights=None, input_shape=(pets.SIZE, pets.SIZE, 3))
    levels = ["block_1_expand_relu", "block_3_expand_relu", "block_6_expand_relu", "block_13_expand_relu"]
    ways = [known.get_layer(name).output for name in (*levels, "block_16_project")]
    down = keras.Model(known.input, ways)
    down.trainable = False
    *skipped, x = down(image)
    for level, width in zip(reversed(skipped), (512, 256, 128, 64), strict=True):
        x = layers.Conv2DTranspose(width, 3, strides=2, padding="same", use_bias=False)(x)
        x = layers.ReLU()(layers.BatchNormalization()(x))
        x = layers.Concatenate()([x, level])
    return _outlined(image, layers.UpSampling2D()(x))


def _outlined(image: keras.KerasTensor, x: keras.KerasTensor) -> keras.Model:
    """Three probabilities for each pixel, in 32 bits: the logarithm of a small one does not fit into fewer."""
    import keras
    from keras import layers

    x = layers.Conv2D(pets.CLASSES, 1, dtype="float32")(x)
    # One row of pixels: PyTorch cannot differentiate this loss over an image with its channels last (pytorch#175084).
    x = layers.Reshape((-1, pets.CLASSES), dtype="float32")(x)
    return keras.Model(image, layers.Softmax(dtype="float32")(x))


MODELS = {"unet": build_unet, "unet-wide": build_unet_wide, "unet-mobilenet": build_unet_mobilenet}

if __name__ == "__main__":
    sys.exit(main())
