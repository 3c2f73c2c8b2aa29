"""IMDB: 25,000 film reviews for training, half of them positive (Maas et al., 2011).

Read as published: `aclImdb/train/pos/0_9.txt` and `…/neg/…`. Leaves word ids: 0 fills up, 1 is an unknown word, the others
count from the most frequent on. Words are those of the reviews: nothing is fetched from a hub, so no vocabulary of word pieces.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path, PurePosixPath

import numpy as np

from workloads.datasets.source import Archive, Source, members, published_as
from workloads.progress import say

FILL, UNKNOWN, FIRST_WORD = 0, 1, 2
SOURCE = Source(
    "IMDB",
    "imdb",
    (
        Archive(
            "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
            "7c2ac02c03563afcf9b574c7e56c153a",
        ),
    ),
)
_WORD = re.compile(r"[a-z0-9']+|[!?]")
_LINE_BREAK = "<br />"
_REVIEW = re.compile(r"train/(pos|neg)/\d+_\d+\.txt$")


def reviews(data: str, samples: int, seed: int, *, length: int, vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    """Word ids (N, length) below `vocabulary` and labels (N,), 1 for positive, as `--data` says."""
    folder = SOURCE.find(data)
    if folder is None:
        words, labels = synthetic(samples, length, vocabulary, seed)
    else:
        words, labels = load(folder, length, vocabulary)
    kind = "synthetic, " if folder is None else f"IMDB in {folder}, "
    say(f"data: {kind}{len(words)} reviews of {length} word ids out of {vocabulary} (IMDB's shape)")
    return words, labels


def load(folder: Path, length: int, vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    """The first `length` words of each training review, and whether it is positive. Ends the program if there are none."""
    texts, labels = [], []
    for name, content in members(folder, lambda name: _REVIEW.search(name) is not None):
        with published_as(SOURCE.title, name):
            texts.append(_WORD.findall(content.decode().lower().replace(_LINE_BREAK, " ")))
        labels.append(PurePosixPath(name).parent.name == "pos")
    if not texts:
        raise SystemExit(f"{folder} holds no IMDB reviews: neither train/pos/*.txt nor {SOURCE.archives[0].name}.")
    counted = Counter(word for text in texts for word in text)
    frequent = counted.most_common(vocabulary - FIRST_WORD)
    number = {word: place for place, (word, _) in enumerate(frequent, start=FIRST_WORD)}
    words = np.full((len(texts), length), FILL, np.int32)
    for row, text in zip(words, texts, strict=True):
        ids = [number.get(word, UNKNOWN) for word in text[:length]]
        row[: len(ids)] = ids
    return words, np.array(labels, np.int64)


def synthetic(samples: int, length: int, vocabulary: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Word ids by Zipf's law; one word in eight is drawn from a hundred that belong to the label."""
    random = np.random.default_rng(seed)
    words = np.minimum(random.zipf(1.3, (samples, length)) + UNKNOWN, vocabulary - 1)
    labels = random.integers(0, 2, samples)
    telling = 1000 + 100 * labels[:, None] + random.integers(0, 100, (samples, length))
    return np.where(random.random((samples, length)) < 0.125, telling, words).astype(np.int32), labels
