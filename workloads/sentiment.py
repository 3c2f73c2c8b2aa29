"""Tell positive film reviews from negative ones (IMDB, 128 words of each) with BERT encoders of several sizes.

The encoders are made of Keras layers and start from random weights; the log says so. Their sizes are those of Turc et al.
(2019), which the seed measured, up to BERT base: layers (l), width (h), attention heads (a). Words are those of the reviews,
20,000 of them, not word pieces.
"""

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

VOCABULARY = 20_000
# As BERT was pretrained with (Devlin et al., NAACL 2019, A.2). At Adam's usual rate, ten times as much, the wide ones are thrown
# off within a few steps.
RATE = 1e-4
# Name of a BERT size: layers, width, attention heads.
MODELS = {
    "bert-l2-h128-a2": (2, 128, 2),
    "bert-l2-h256-a4": (2, 256, 4),
    "bert-l2-h512-a8": (2, 512, 8),
    "bert-l2-h768-a12": (2, 768, 12),
    "bert-l4-h128-a2": (4, 128, 2),
    "bert-l4-h256-a4": (4, 256, 4),
    "bert-l4-h512-a8": (4, 512, 8),
    "bert-l8-h512-a8": (8, 512, 8),
    "bert-l12-h768-a12": (12, 768, 12),
}


def main(arguments: list[str] | None = None) -> int:
    """Train, and return the exit code."""
    parser = common.flags(__doc__ or "", batch_size=32, samples=8192, epochs=20)
    parser.add_argument("--model", choices=MODELS, default="bert-l2-h128-a2", help="the network; the last is BERT base")
    parser.add_argument(
        "--sequence-length", type=common.positive, default=128, metavar="N", help="words of a review that are read"
    )
    options = parser.parse_args(arguments)
    length = options.sequence_length
    words, labels = imdb.reviews(options.data, options.samples, options.seed, length=length, vocabulary=VOCABULARY)
    common.start(options)
    common.say(f"{options.model} from random weights: no pretrained ones are fetched")
    import keras

    model = build(*MODELS[options.model], length)
    model.compile(keras.optimizers.Adam(RATE), "binary_crossentropy", jit_compile=common.jit())
    return common.fit(model, partial(batch, words, labels), len(words), options)


def batch(
    words: np.ndarray, labels: np.ndarray, chosen: np.ndarray, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The chosen reviews; one word in ten is replaced by the unknown word."""
    kept = random.random((len(chosen), words.shape[1])) >= 0.1
    return np.where(kept, words[chosen], imdb.UNKNOWN), labels[chosen].astype(np.float32)


def build(depth: int, width: int, heads: int, length: int) -> keras.Model:
    """Embeddings of word and place, the encoder blocks, the mean over the words, one output."""
    import keras
    from keras import layers, ops

    words = keras.Input((length,), dtype="int32")
    places = ops.cumsum(ops.ones_like(words), axis=1) - 1
    x = layers.Embedding(VOCABULARY, width)(words) + layers.Embedding(length, width)(places)
    x = layers.LayerNormalization()(x)
    for _ in range(depth):
        x = layers.LayerNormalization()(x + layers.MultiHeadAttention(heads, width // heads)(x, x))
        inner = layers.Dense(4 * width, activation="gelu")(x)
        x = layers.LayerNormalization()(x + layers.Dense(width)(inner))
    pooled = layers.GlobalAveragePooling1D()(x)
    return keras.Model(words, layers.Dense(1, activation="sigmoid", dtype="float32")(pooled))


if __name__ == "__main__":
    sys.exit(main())
