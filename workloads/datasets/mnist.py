"""MNIST: 60,000 handwritten digits of 28x28 pixels (LeCun, Cortes, Burges).

Read as published: `train-images-idx3-ubyte.gz` and `train-labels-idx1-ubyte.gz`, or the same unpacked.
"""

from __future__ import annotations

import gzip
import zlib
from itertools import pairwise
from math import prod
from pathlib import Path

import numpy as np

from workloads.datasets.source import Archive, Source
from workloads.progress import say

SIDE = 28
CLASSES = 10
_IMAGES, _LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
# The mirror that PyTorch keeps: the makers' own address asks for a password now.
_MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist"
SOURCE = Source(
    "MNIST",
    "mnist",
    (
        Archive(f"{_MIRROR}/{_IMAGES}.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
        Archive(f"{_MIRROR}/{_LABELS}.gz", "d53e105ee54ea40749a09fcbcd1e9432"),
    ),
)


def digits(data: str, samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Images (N, 28, 28, 1) of bytes and labels (N,), as `--data` says: `samples` made-up ones, or all real ones."""
    folder = SOURCE.find(data)
    found, labels = synthetic(samples, seed) if folder is None else load(folder)
    kind = "synthetic, " if folder is None else f"MNIST in {folder}, "
    say(f"data: {kind}{len(found)} images of {SIDE}x{SIDE}x1 in {CLASSES} classes (MNIST's shape)")
    return found, labels


def load(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """All training images and labels. Ends the program if they are not there."""
    try:
        return _idx(folder, _IMAGES)[..., None], _idx(folder, _LABELS).astype(np.int64)
    except (OSError, EOFError, ValueError, IndexError, zlib.error) as error:
        raise SystemExit(f"{folder} does not hold MNIST: {error}") from error


def synthetic(samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """White strokes on black: a digit is a path through the same few points, drawn a little differently each time."""
    random = np.random.default_rng(seed)
    paths = random.uniform(6, 21, (CLASSES, 5, 2))
    labels = random.integers(0, CLASSES, samples)
    grid = np.stack(np.meshgrid(np.arange(SIDE), np.arange(SIDE), indexing="ij"), -1)
    made = np.empty((samples, SIDE, SIDE, 1), np.uint8)
    along = np.linspace(0, 1, 8)[:, None]
    for image, label in zip(made, labels, strict=True):
        points = paths[label] + random.normal(0, 1, (5, 2))
        stroke = np.concatenate([a + (b - a) * along for a, b in pairwise(points)])
        distance = np.linalg.norm(grid[:, :, None] - stroke, axis=-1).min(axis=-1)
        image[..., 0] = np.clip(255 * (2 - distance), 0, 255)
    return made, labels


def _idx(folder: Path, name: str) -> np.ndarray:
    """An array in IDX form: two zero bytes, type 8 (unsigned bytes), the number of dimensions, their sizes, the bytes."""
    packed = folder / f"{name}.gz"
    content = gzip.decompress(packed.read_bytes()) if packed.is_file() else (folder / name).read_bytes()
    if content[:3] != b"\0\0\x08":
        raise ValueError(f"{name} is not an IDX file of bytes")
    shape = np.frombuffer(content, ">u4", content[3], 4)
    start = 4 + 4 * content[3]
    if len(content) - start != prod(map(int, shape)):
        raise ValueError(f"{name} is cut off")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape.astype(int))
