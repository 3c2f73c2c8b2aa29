"""Predict the next word of a film review (IMDB) with the tutorial's LSTM: 100 words before it, 128 units, 10,000 words."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if not __package__:  # run as a file: the other modules lie beside it
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from workloads import common
from workloads.datasets import imdb

if TYPE_CHECKING:
    import keras

VOCABULARY = 10_000


def main(arguments: list[str] | None = None) -> int:
    """Train, and return the exit code."""
    parser = common.flags(__doc__ or "", batch_size=64, samples=8192, epochs=20)
    parser.add_argument("--model", choices=["lstm"], default="lstm", help="the network")
    parser.add_argument(
        "--sequence-length", type=common.positive, default=100, metavar="N", help="words before the one to predict"
    )
    options = parser.parse_args(arguments)
    length = options.sequence_length
    words, _ = imdb.reviews(options.data, options.samples, options.seed, length=2 * length, vocabulary=VOCABULARY)
    common.start(options)
    model = build(length)
    model.compile("adam", "sparse_categorical_crossentropy", jit_compile=common.jit())
    return common.fit(model, partial(batch, words, length), len(words), options)


def batch(
    words: np.ndarray, length: int, chosen: np.ndarray, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """From each chosen review `length` words on end from a random place, and the word after them.

    The word after is never the filling at the end of a short review, unless the whole review is shorter than two words.
    """
    texts = words[chosen]
    written = np.maximum((texts != imdb.FILL).sum(axis=1), 2)
    target = random.integers(1, written)
    before = target[:, None] - length + np.arange(length)
    seen = np.take_along_axis(texts, np.maximum(before, 0), axis=1)
    return np.where(before >= 0, seen, imdb.FILL), texts[np.arange(len(texts)), target]


def build(length: int) -> keras.Model:
    """Words as 128 numbers each, 128 LSTM units, a probability for every word."""
    import keras
    from keras import layers

    return keras.Sequential(
        [
            keras.Input((length,), dtype="int32"),
            layers.Embedding(VOCABULARY, 128),
            layers.LSTM(128),
            layers.Dense(VOCABULARY, activation="softmax", dtype="float32"),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
