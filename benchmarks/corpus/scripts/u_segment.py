"""A U-Net-like network with Keras for masks."""
import argparse
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf

cli = argparse.ArgumentParser()
cli.add_argument("--base-channels", type=int, default=8)
cli.add_argument("--crop-size", type=int, default=48)
cli.add_argument("--train-batch", type=int, default=8)
cli.add_argument("--max-epochs", type=int, default=1)
cli.add_argument("--levels", type=int, default=2)
cli.add_argument("--learning-rate", type=float, default=1e-3)
cli.add_argument("--results-dir", default="results")
o = cli.parse_args()
k = tf.keras.layers
x = inputs = tf.keras.Input((o.crop_size, o.crop_size, 3))
skips = []
for level in range(o.levels):
    x = k.Conv2D(o.base_channels * 2**level, 3, padding="same", activation="relu")(x)
    skips.append(x)
    x = k.MaxPooling2D()(x)
for level in reversed(range(o.levels)):
    x = k.UpSampling2D()(x)
    x = k.Concatenate()([x, skips[level]])
    x = k.Conv2D(o.base_channels * 2**level, 3, padding="same", activation="relu")(x)
model = tf.keras.Model(inputs, k.Conv2D(2, 1)(x))
model.compile(tf.keras.optimizers.Adam(o.learning_rate), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
for epoch in range(o.max_epochs):
    for _ in range(6):
        images = np.random.rand(o.train_batch, o.crop_size, o.crop_size, 3)
        model.train_on_batch(images, np.random.randint(0, 2, (o.train_batch, o.crop_size, o.crop_size)))
