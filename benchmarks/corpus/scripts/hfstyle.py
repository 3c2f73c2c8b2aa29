"""A transformer encoder with Keras; the arguments come from dataclasses as in Transformers' examples."""
import argparse
import os
from dataclasses import dataclass, field, fields

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import keras
import numpy as np


@dataclass
class ModelArguments:
    hidden_size: int = field(default=64)
    num_hidden_layers: int = field(default=2)
    num_attention_heads: int = 4
    vocab_size: int = 2000


@dataclass
class TrainingArguments:
    per_device_train_batch_size: int = 8
    max_seq_length: int = 64
    max_steps: int = 5
    learning_rate: float = 5e-5
    output_dir: str = "out"
    logging_steps: int = 10
    seed: int = 42


def parse(*classes):
    parser = argparse.ArgumentParser()
    for one in classes:
        for f in fields(one):
            parser.add_argument(f"--{f.name}", type=f.type, default=f.default)
    given = vars(parser.parse_args())
    return [one(**{f.name: given[f.name] for f in fields(one)}) for one in classes]


m, t = parse(ModelArguments, TrainingArguments)
keras.utils.set_random_seed(t.seed)
inputs = keras.Input((t.max_seq_length,), dtype="int32")
x = keras.layers.Embedding(m.vocab_size, m.hidden_size)(inputs)
for _ in range(m.num_hidden_layers):
    a = keras.layers.MultiHeadAttention(m.num_attention_heads, m.hidden_size // m.num_attention_heads)(x, x)
    x = keras.layers.LayerNormalization()(x + a)
    h = keras.layers.Dense(4 * m.hidden_size, activation="gelu")(x)
    x = keras.layers.LayerNormalization()(x + keras.layers.Dense(m.hidden_size)(h))
model = keras.Model(inputs, keras.layers.Dense(m.vocab_size)(x))
model.compile(keras.optimizers.AdamW(t.learning_rate), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
for _ in range(t.max_steps):
    ids = np.random.randint(0, m.vocab_size, (t.per_device_train_batch_size, t.max_seq_length))
    model.train_on_batch(ids, ids)
