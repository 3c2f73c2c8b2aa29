"""A text classifier with Keras; all settings in one TOML file, chosen by name."""
import os
import pathlib
import sys
import tomllib

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf

settings = tomllib.loads(pathlib.Path(sys.argv[1]).read_text())
net, fit = settings["network"], settings["fit"]
layers = [tf.keras.layers.Input((net["sequence_length"],), dtype="int32")]
layers += [tf.keras.layers.Embedding(net["vocabulary"], net["embedding"])]
for filters in net["filters"]:
    layers += [tf.keras.layers.Conv1D(filters, 5, padding="same", activation="relu")]
layers += [tf.keras.layers.GlobalMaxPooling1D(), tf.keras.layers.Dense(2)]
model = tf.keras.Sequential(layers)
model.compile(fit["optimizer"], tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
x = np.random.randint(0, net["vocabulary"], (fit["examples"], net["sequence_length"]))
model.fit(x, np.random.randint(0, 2, fit["examples"]), batch_size=fit["batch"], epochs=fit["epochs"], verbose=0)
