"""Outline pets: photographs of 128x128 pixels with a mask of three classes, as in Oxford-IIIT Pet, with a U-Net.

The samples lie on disk, one compressed file each, and every batch is read and unpacked anew: with slow storage this is
the input-bound workload. `--storage-mbps` gives the reader the pace of slow shared storage: no more bytes per second
than that, with half a second of reading ahead. `--data synthetic` writes files of the same shapes and value ranges first, once.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from workloads import common

if TYPE_CHECKING:
    import keras

SIZE = 128
CLASSES = 3
# Storage goes on sending while a file is unpacked, as far as the system reads ahead.
READ_AHEAD_S = 0.5


def main(arguments: list[str] | None = None) -> int:
    """Train, and return the exit code."""
    parser = common.flags(__doc__ or "", batch_size=8, samples=256, epochs=20)
    parser.add_argument("--model", choices=sorted(MODELS), default="unet", help="the network")
    parser.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="folder of the files; a temporary one if not given"
    )
    parser.add_argument(
        "--storage-mbps", type=float, default=0, metavar="MB", help="pace of reading, MB/s; 0: full speed"
    )
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="segmentation-") as scratch:
        files = prepare(options.data_dir or Path(scratch), options.samples, options.seed)
        common.start(options)
        return _train(files, options)


def _train(files: list[Path], options: argparse.Namespace) -> int:
    pace = f", read at {options.storage_mbps:g} MB/s as from slow shared storage" if options.storage_mbps else ""
    common.say(f"data: synthetic, {len(files)} files of {SIZE}x{SIZE} images and masks (Oxford-IIIT Pet's shape){pace}")
    model = MODELS[options.model]()
    model.compile("adam", "sparse_categorical_crossentropy", jit_compile=False)
    reader = Reader(options.storage_mbps * 1e6)
    fetch = partial(batch, files, options.batch_size, reader, np.random.default_rng(options.seed))
    return common.train(model, fetch, options)


def prepare(folder: Path, samples: int, seed: int) -> list[Path]:
    """The sample files in `folder`; those that are missing are made: a bright blob with an outline on a dim ground."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    files = [folder / f"{number:06}.npz" for number in range(samples)]
    for file in files:
        if not file.exists():
            _write(file, *_sample(random))
    return files


class Reader:
    """Reads whole files no faster than `bytes_per_s` (0: no limit)."""

    def __init__(self, bytes_per_s: float) -> None:
        self.bytes_per_s = bytes_per_s
        self.free_at = time.monotonic()

    def read(self, file: Path) -> tuple[np.ndarray, np.ndarray]:
        """Image and mask in one file."""
        with file.open("rb") as stream:
            self._wait_for(os.fstat(stream.fileno()).st_size)
            with np.load(stream) as arrays:
                image, mask = arrays["image"], arrays["mask"]
        return image, mask

    def _wait_for(self, size: int) -> None:
        if self.bytes_per_s <= 0:
            return
        now = time.monotonic()
        self.free_at = max(self.free_at, now - READ_AHEAD_S) + size / self.bytes_per_s
        time.sleep(max(0.0, self.free_at - now))


def batch(files: list[Path], size: int, reader: Reader, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A random batch from the disk: images from 0 to 1, masks of class numbers."""
    samples = [reader.read(files[i]) for i in random.integers(0, len(files), size)]
    images, masks = (np.stack(arrays) for arrays in zip(*samples, strict=True))
    return images.astype(np.float32) / 255.0, masks.astype(np.int32)


def build_unet() -> keras.Model:
    """Two levels down and up again, each way up joined with its level on the way down."""
    import keras
    from keras import layers

    image = x = keras.Input((SIZE, SIZE, 3))
    skipped = []
    for filters in (8, 16):
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        skipped.append(x)
        x = layers.MaxPooling2D()(x)
    x = layers.Conv2D(32, 3, padding="same", activation="relu")(x)
    for filters in (16, 8):
        x = layers.Concatenate()([layers.UpSampling2D()(x), skipped.pop()])
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
    return keras.Model(image, layers.Conv2D(CLASSES, 1, activation="softmax")(x))


MODELS = {"unet": build_unet}


def _sample(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    across, down = np.meshgrid(np.arange(SIZE), np.arange(SIZE))
    middle, radius = random.uniform(40, 88, 2), random.uniform(15, 35)
    distance = np.hypot(across - middle[0], down - middle[1])
    mask = np.select([distance < radius - 3, distance < radius + 3], [0, 2], 1).astype(np.uint8)
    colours = random.uniform(30, 220, (CLASSES, 3))
    noise = random.normal(0, 12, (SIZE, SIZE, 3))
    return np.clip(colours[mask] + noise, 0, 255).astype(np.uint8), mask


def _write(file: Path, image: np.ndarray, mask: np.ndarray) -> None:
    # Renamed into place, so that two jobs may prepare one folder at the same time.
    with tempfile.NamedTemporaryFile(dir=file.parent, suffix=".tmp", delete=False) as stream:
        np.savez_compressed(stream, image=image, mask=mask)
    Path(stream.name).replace(file)


if __name__ == "__main__":
    sys.exit(main())
