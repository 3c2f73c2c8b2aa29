"""word2vec with negative sampling in NumPy; settings in a class that the command line overrides."""
import sys
from dataclasses import dataclass, fields

import numpy as np


@dataclass
class Config:
    vocab_size: int = 30000
    dim: int = 100
    window: int = 5
    negatives: int = 5
    corpus_words: int = 1_000_000
    batch: int = 512
    steps: int = 400
    lr: float = 0.05
    report_every: int = 100


config = Config()
types = {f.name: f.type for f in fields(Config)}
words = iter(sys.argv[1:])
for word in words:
    name = word.removeprefix("--")
    setattr(config, name, types[name](next(words)))
rng = np.random.default_rng(0)
corpus = rng.integers(0, config.vocab_size, config.corpus_words)
inner = rng.standard_normal((config.vocab_size, config.dim), dtype=np.float32) / config.dim
outer = np.zeros_like(inner)
for step in range(config.steps):
    at = rng.integers(config.window, config.corpus_words - config.window, config.batch)
    centre, context = corpus[at], corpus[at + rng.integers(1, config.window + 1, config.batch)]
    others = rng.integers(0, config.vocab_size, (config.batch, config.negatives))
    targets = np.concatenate([context[:, None], others], 1)
    h = inner[centre]
    score = 1 / (1 + np.exp(-np.einsum("bd,bkd->bk", h, outer[targets])))
    score[:, 0] -= 1
    np.add.at(outer, targets, -config.lr * score[:, :, None] * h[:, None, :])
    np.add.at(inner, centre, -config.lr * np.einsum("bk,bkd->bd", score, outer[targets]))
    if step % config.report_every == 0:
        print(step, float(np.abs(score).mean()))
