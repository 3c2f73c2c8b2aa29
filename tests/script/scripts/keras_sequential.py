"""A Keras model in a function, chosen from a table by an option."""
import argparse

import keras
from keras import layers


def lstm(width):
    return keras.Sequential([layers.Embedding(5000, width), layers.LSTM(width), layers.Dense(1)])


def conv(width):
    blocks = [layers.Conv1D(width * 2**i, 3) for i in range(3)]
    return keras.Sequential([layers.Embedding(5000, width), *blocks, layers.GlobalMaxPooling1D(), layers.Dense(1)])


MODELS = {"lstm": lstm, "conv": conv}
parser = argparse.ArgumentParser()
parser.add_argument("--kind-of-net", dest="which", choices=sorted(MODELS), default="lstm")
parser.add_argument("--max-len", type=int, default=200)
args = parser.parse_args()
model = MODELS[args.which](64)
model.compile("rmsprop", "binary_crossentropy")
model.fit(x, y, batch_size=100, epochs=4)
