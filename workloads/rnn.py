"""Tell positive film reviews from negative ones (IMDB) with the tutorial's simple recurrent network: 100 words, 64 units."""

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
    parser.add_argument("--model", choices=["rnn"], default="rnn", help="the network")
    parser.add_argument(
        "--sequence-length", type=common.positive, default=100, metavar="N", help="words of a review that are read"
    )
    options = parser.parse_args(arguments)
    length = options.sequence_length
    words, labels = imdb.reviews(options.data, options.samples, options.seed, length=length, vocabulary=VOCABULARY)
    common.start(options)
    model = build(length)
    model.compile("adam", "binary_crossentropy", jit_compile=common.jit())
    return common.fit(model, partial(batch, words, labels), len(words), options)


def batch(
    words: np.ndarray, labels: np.ndarray, chosen: np.ndarray, _: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The chosen reviews."""
    return words[chosen], labels[chosen].astype(np.float32)


def build(length: int) -> keras.Model:
    """Words as 128 numbers each, 64 recurrent units, one output."""
    import keras
    from keras import layers

    return keras.Sequential(
        [
            keras.Input((length,), dtype="int32"),
            layers.Embedding(VOCABULARY, 128),
            layers.SimpleRNN(64),
            layers.Dense(1, activation="sigmoid", dtype="float32"),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
