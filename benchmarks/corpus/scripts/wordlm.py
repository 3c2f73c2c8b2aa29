"""A recurrent language model with Keras; the options are those of PyTorch's word_language_model."""
import argparse
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf

p = argparse.ArgumentParser()
p.add_argument("--emsize", type=int, default=64, help="size of word embeddings")
p.add_argument("--nhid", type=int, default=64, help="number of hidden units per layer")
p.add_argument("--nlayers", type=int, default=1)
p.add_argument("--bptt", type=int, default=16)
p.add_argument("--batch_size", type=int, default=16)
p.add_argument("--ntokens", type=int, default=4000)
p.add_argument("--steps", type=int, default=6)
p.add_argument("--lr", type=float, default=20)
p.add_argument("--save", default="model.pt")
args = p.parse_args()

inp = tf.keras.Input((args.bptt,), dtype="int32")
h = tf.keras.layers.Embedding(args.ntokens, args.emsize)(inp)
for _ in range(args.nlayers):
    h = tf.keras.layers.LSTM(args.nhid, return_sequences=True, unroll=False)(h)
out = tf.keras.layers.Dense(args.ntokens)(h)
model = tf.keras.Model(inp, out)
model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
for i in range(args.steps):
    x = np.random.randint(0, args.ntokens, (args.batch_size, args.bptt + 1))
    model.train_on_batch(x[:, :-1], x[:, 1:])
