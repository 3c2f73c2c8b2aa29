"""Oxford-IIIT Pet: 7,390 photographs with a map of pet, background and outline (Parkhi et al., 2012).

Read as published: `images/NAME.jpg` and `annotations/trimaps/NAME.png`. Leaves one small compressed file per sample, brought
to 128x128 pixels once, which training then reads from disk.
"""

from __future__ import annotations

import io
import os
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import numpy as np

from workloads.datasets.source import Archive, Source, cache, members, published_as
from workloads.progress import say
from workloads.whole import whole

SIZE = 128
CLASSES = 3
DONE = "complete"
_PUBLISHED = "https://www.robots.ox.ac.uk/~vgg/data/pets/data"
SOURCE = Source(
    "Oxford-IIIT Pet",
    "pets",
    (
        Archive(f"{_PUBLISHED}/images.tar.gz", "5c4f3ee8e5d25df40f4fd59a7f44e54c"),
        Archive(f"{_PUBLISHED}/annotations.tar.gz", "95a8c909bbe2e81eed6a22bccdf3f68f"),
    ),
)


def files(data: str, samples: int, seed: int, prepared: Path) -> list[Path]:
    """The samples as `--data` says, one file each: `samples` made-up ones in `prepared`, or all real ones.

    Those that were downloaded are brought to their size once, in the cache, or in `prepared` if that cannot be written to.
    """
    folder = SOURCE.find(data)
    try:
        found = prepare(prepared, samples, seed) if folder is None else convert(folder, _converted(folder, prepared))
    except OSError as error:
        raise SystemExit(
            f"cannot make the sample files: {error}. Make room, or name another folder with --data-dir."
        ) from error
    kind = "synthetic, " if folder is None else f"Oxford-IIIT Pet in {folder}, "
    say(f"data: {kind}{len(found)} files of {SIZE}x{SIZE} images and masks (Oxford-IIIT Pet's shape)")
    return found


def prepare(folder: Path, samples: int, seed: int) -> list[Path]:
    """The sample files in `folder`; those that are missing are made: a bright blob with an outline on a dim ground."""
    folder.mkdir(parents=True, exist_ok=True)
    made = [folder / f"{number:06}.npz" for number in range(samples)]
    for number, file in enumerate(made):
        if not file.exists():
            _write(file, *_sample(np.random.default_rng((seed, number))))
    return made


def convert(source: Path, folder: Path) -> list[Path]:
    """Bring the published photographs and maps to sample files in `folder`, once. Ends the program if there are none."""
    done = folder / DONE
    if not done.exists():
        say(f"bringing photographs to {SIZE}x{SIZE} pixels, once")
        folder.mkdir(parents=True, exist_ok=True)
        masks = {name: _decoded(name, content, "L") for name, content in _named(source, "trimaps", ".png")}
        for name, content in _named(source, "images", ".jpg"):
            if name in masks:
                # The map counts 1, 2, 3: pet, background, outline.
                _write(folder / f"{name}.npz", _decoded(name, content, "RGB"), np.clip(masks[name], 1, CLASSES) - 1)
        if not any(folder.glob("*.npz")):
            raise SystemExit(f"{source} holds no pets: neither images/ and annotations/trimaps/ nor their archives.")
        done.touch()
    return sorted(folder.glob("*.npz"))


def read(stream: io.BufferedIOBase) -> tuple[np.ndarray, np.ndarray]:
    """Image (128, 128, 3) of bytes and mask (128, 128) of class numbers, of one sample file. ValueError if it is damaged."""
    try:
        with np.load(stream) as arrays:
            return arrays["image"], arrays["mask"]
    except (EOFError, KeyError, TypeError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"not a whole sample: {error}") from error


def _converted(source: Path, prepared: Path) -> Path:
    kept = cache() / f"pets-{SIZE}"
    if not source.is_relative_to(cache()):
        return prepared
    return kept if (kept / DONE).exists() or os.access(cache(), os.W_OK) else prepared


def _named(source: Path, folder: str, suffix: str) -> Iterator[tuple[str, bytes]]:
    def wanted(name: str) -> bool:
        path = PurePosixPath(name)
        # macOS left `._NAME.png` beside the maps in the published archive.
        return path.suffix == suffix and path.parent.name == folder and not path.name.startswith(".")

    yield from ((PurePosixPath(name).stem, content) for name, content in members(source, wanted))


def _decoded(name: str, content: bytes, mode: str) -> np.ndarray:
    """The pixels at SIZE x SIZE. A map's numbers are not mixed: each pixel is one of those that were there."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise SystemExit("reading photographs needs Pillow: pip install pillow, or say --data synthetic.") from error
    way = Image.Resampling.NEAREST if mode == "L" else Image.Resampling.BILINEAR
    with published_as(SOURCE.title, name):
        try:
            with Image.open(io.BytesIO(content)) as image:
                return np.asarray(image.convert(mode).resize((SIZE, SIZE), way))
        except UnidentifiedImageError as error:  # tells of a stream in memory
            raise ValueError("no picture of a known form") from error


def _sample(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    across, down = np.meshgrid(np.arange(SIZE), np.arange(SIZE))
    middle, radius = random.uniform(40, 88, 2), random.uniform(15, 35)
    distance = np.hypot(across - middle[0], down - middle[1])
    mask = np.select([distance < radius - 3, distance < radius + 3], [0, 2], 1).astype(np.uint8)
    colours = random.uniform(30, 220, (CLASSES, 3))
    noise = random.normal(0, 12, (SIZE, SIZE, 3))
    return np.clip(colours[mask] + noise, 0, 255).astype(np.uint8), mask


def _write(file: Path, image: np.ndarray, mask: np.ndarray) -> None:
    with whole(file, synced=False) as stream:  # two jobs may prepare one folder at the same time
        np.savez_compressed(stream, image=image, mask=mask)
