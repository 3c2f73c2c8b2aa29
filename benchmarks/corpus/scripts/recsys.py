"""Two towers of embeddings with Keras."""
import argparse
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--vocab", type=int, default=50_000)
parser.add_argument("--embedding-dim", type=int, default=32)
parser.add_argument("--bs", type=int, default=256)
parser.add_argument("--max-train-steps", type=int, default=30)
parser.add_argument("--opt", choices=["sgd", "adam"], default="adam")
parser.add_argument("--wandb-project")
args = parser.parse_args()
a, b = tf.keras.Input((), dtype="int32"), tf.keras.Input((), dtype="int32")
ea = tf.keras.layers.Embedding(args.vocab, args.embedding_dim)(a)
eb = tf.keras.layers.Embedding(args.vocab, args.embedding_dim)(b)
model = tf.keras.Model([a, b], tf.keras.layers.Dot(1)([ea, eb]))
model.compile(args.opt, "mse")
for _ in range(args.max_train_steps):
    i, j = np.random.randint(0, args.vocab, (2, args.bs))
    model.train_on_batch([i, j], np.random.rand(args.bs))
