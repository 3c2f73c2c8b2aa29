"""A table network with Keras; settings in JSON, a few of them can be overridden."""
import json
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf

config = json.load(open(sys.argv[1]))
for word in sys.argv[2:]:
    name, value = word.split("=")
    config[name] = type(config[name])(value)
x = np.random.rand(config["rows"], config["columns"]).astype("float32")
y = np.random.rand(config["rows"], 1).astype("float32")
model = tf.keras.Sequential([tf.keras.layers.Input((config["columns"],))])
for _ in range(config["num_layers"]):
    model.add(tf.keras.layers.Dense(config["hidden"], activation="relu"))
model.add(tf.keras.layers.Dense(1))
model.compile(config["optimizer"], "mse")
model.fit(x, y, batch_size=config["batch_size"], epochs=config["epochs"], verbose=0)
os.makedirs(config["checkpoint_dir"], exist_ok=True)
