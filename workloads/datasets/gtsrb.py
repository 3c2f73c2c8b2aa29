"""GTSRB: German traffic signs, 43 classes, photographs of 15 to 250 pixels with the sign's box (Stallkamp et al., 2012).

Read as published: `Training/00014/00001_00029.ppm` and one `GT-00014.csv` per class. Leaves images of one size, and labels.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path, PurePosixPath

import numpy as np

from workloads.datasets.source import Archive, Source, members, published_as
from workloads.progress import say

CLASSES = 43
SIDE = 64
"""Most signs are smaller, so little is lost, and the network's size is chosen later."""
SOURCE = Source(
    "GTSRB",
    "gtsrb",
    (
        Archive(
            "https://sid.erda.dk/public/archives/daaeac0d7ce1152aea9b61d9f1e19370/GTSRB-Training_fixed.zip",
            "513f3c79a4c5141765e10e952eaa2478",
        ),
    ),
)
_HEADER = re.compile(rb"P6\s(?:#[^\n]*\n)*\s*(\d+)\s+(\d+)\s+255\s")
Box = tuple[int, int, int, int]


def images(data: str, samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Images (N, 64, 64, 3) of bytes and labels (N,), as `--data` says: `samples` made-up ones, or all real ones."""
    folder = SOURCE.find(data)
    found, labels = synthetic(samples, seed) if folder is None else load(folder)
    kind = "synthetic, " if folder is None else f"GTSRB in {folder}, "
    say(f"data: {kind}{len(found)} images of {SIDE}x{SIDE}x3 in {CLASSES} classes (GTSRB's shape)")
    return found, labels


def load(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """All training images, cut to the sign's box where the table gives one. Ends the program if there are none."""
    boxes: dict[str, Box] = {}
    for name, content in members(folder, lambda name: PurePosixPath(name).match("*/GT-*.csv")):
        with published_as(SOURCE.title, name):
            boxes |= _boxes(PurePosixPath(name).parent.name, content.decode())
    found, labels = [], []
    for name, content in members(folder, _is_training_image):
        path = PurePosixPath(name)
        with published_as(SOURCE.title, name):
            found.append(_shrunk(_pixels(content), boxes.get(f"{path.parent.name}/{path.name}")))
            labels.append(_class(path.parent.name))
    if not found:
        raise SystemExit(f"{folder} holds no GTSRB training images: neither 00000/*.ppm nor {SOURCE.archives[0].name}.")
    return np.stack(found), np.array(labels)


def synthetic(samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Each class is a coarse pattern of its own, brighter or darker, under noise."""
    random = np.random.default_rng(seed)
    patterns = random.integers(0, 200, (CLASSES, 8, 8, 3)).repeat(SIDE // 8, axis=1).repeat(SIDE // 8, axis=2)
    labels = random.integers(0, CLASSES, samples)
    made = np.empty((samples, SIDE, SIDE, 3), np.uint8)
    for image, label in zip(made, labels, strict=True):
        noise = random.integers(-25, 26, (SIDE, SIDE, 3))
        image[:] = np.clip(patterns[label] * random.uniform(0.6, 1.2) + noise, 0, 255)
    return made, labels


def _is_training_image(name: str) -> bool:
    path = PurePosixPath(name)
    return path.suffix == ".ppm" and re.fullmatch(r"\d{5}", path.parent.name) is not None


def _class(folder: str) -> int:
    number = int(folder)
    if number >= CLASSES:
        raise ValueError(f"class {number} of {CLASSES}, counted from 0")
    return number


def _boxes(folder: str, table: str) -> dict[str, Box]:
    rows = csv.DictReader(table.splitlines(), delimiter=";")
    return {
        f"{folder}/{row['Filename']}": (
            int(row["Roi.X1"]),
            int(row["Roi.Y1"]),
            int(row["Roi.X2"]),
            int(row["Roi.Y2"]),
        )
        for row in rows
    }


def _pixels(content: bytes) -> np.ndarray:
    """The pixels of a binary PPM file of 8 bits a colour. Raises ValueError for another."""
    header = _HEADER.match(content)
    if header is None:
        raise ValueError("not a binary PPM file of 8 bits a colour")
    width, height = map(int, header.groups())
    return np.frombuffer(content, np.uint8, width * height * 3, header.end()).reshape(height, width, 3)


def _shrunk(image: np.ndarray, box: Box | None) -> np.ndarray:
    """The part in the box at SIDE x SIDE, by bilinear interpolation. The box's last row and column belong to it."""
    if box is not None:
        left, top, right, bottom = box
        image = image[top : bottom + 1, left : right + 1]
    down, rows = _between(image.shape[0])
    across, columns = _between(image.shape[1])
    upper, lower = image[down], image[np.minimum(down + 1, image.shape[0] - 1)]
    tall = upper * (1 - rows)[:, None, None] + lower * rows[:, None, None]
    wide = (
        tall[:, across] * (1 - columns)[:, None]
        + tall[:, np.minimum(across + 1, image.shape[1] - 1)] * columns[:, None]
    )
    return np.rint(wide).astype(np.uint8)


def _between(length: int) -> tuple[np.ndarray, np.ndarray]:
    """For each of SIDE pixels: the one of `length` before its place, and how far it lies towards the next."""
    place = np.clip((np.arange(SIDE) + 0.5) * length / SIDE - 0.5, 0, length - 1)
    before = place.astype(np.int64)
    return before, (place - before).astype(np.float32)
