"""Tell positive film reviews from negative ones: 128 word ids out of 20,000, as IMDB gives them, with a small BERT.

`--data synthetic` draws word ids by Zipf's law and lets some words carry the sentiment, so there is something to learn.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from workloads import common

if TYPE_CHECKING:
    import keras

VOCABULARY = 20_000
# Name of a BERT size: layers, width, attention heads.
MODELS = {"bert-l2-h128-a2": (2, 128, 2), "bert-l4-h256-a4": (4, 256, 4)}


def main(arguments: list[str] | None = None) -> int:
    """Train, and return the exit code."""
    parser = common.flags(__doc__ or "", batch_size=32, samples=8192, epochs=20)
    parser.add_argument("--model", choices=sorted(MODELS), default="bert-l2-h128-a2", help="the network")
    parser.add_argument("--sequence-length", type=int, default=128, metavar="N", help="words of a review that are read")
    options = parser.parse_args(arguments)
    common.start(options)
    words, labels = synthetic(options.samples, options.sequence_length, options.seed)
    common.say(f"data: synthetic, {len(words)} reviews of {options.sequence_length} word ids (IMDB's shape)")
    model = build(*MODELS[options.model], options.sequence_length)
    model.compile("adam", "binary_crossentropy", jit_compile=False)
    fetch = partial(batch, words, labels, options.batch_size, np.random.default_rng(options.seed))
    return common.train(model, fetch, options)


def synthetic(samples: int, length: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Word ids and labels: one word in eight is drawn from a hundred that belong to the label."""
    random = np.random.default_rng(seed)
    words = np.minimum(random.zipf(1.3, (samples, length)), VOCABULARY - 1)
    labels = random.integers(0, 2, samples)
    telling = 1000 + 100 * labels[:, None] + random.integers(0, 100, (samples, length))
    return np.where(random.random((samples, length)) < 0.125, telling, words).astype(np.int32), labels


def batch(
    words: np.ndarray, labels: np.ndarray, size: int, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """A random batch in which one word in ten is replaced by the unknown word, 0."""
    chosen = random.integers(0, len(words), size)
    kept = random.random((size, words.shape[1])) >= 0.1
    return words[chosen] * kept, labels[chosen].astype(np.float32)


def build(depth: int, width: int, heads: int, length: int) -> keras.Model:
    """Embeddings of word and place, `depth` encoder blocks, the mean over the words, one output."""
    import keras
    from keras import layers, ops

    words = keras.Input((length,), dtype="int32")
    places = layers.Embedding(length, width)(ops.arange(length))
    x = layers.LayerNormalization()(layers.Embedding(VOCABULARY, width)(words) + places)
    for _ in range(depth):
        x = layers.LayerNormalization()(x + layers.MultiHeadAttention(heads, width // heads)(x, x))
        inner = layers.Dense(4 * width, activation="gelu")(x)
        x = layers.LayerNormalization()(x + layers.Dense(width)(inner))
    return keras.Model(words, layers.Dense(1, activation="sigmoid")(layers.GlobalAveragePooling1D()(x)))


if __name__ == "__main__":
    sys.exit(main())
