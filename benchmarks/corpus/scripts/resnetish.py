"""A residual network with Keras, with mixed precision and augmentation as switches."""
import argparse
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf

ap = argparse.ArgumentParser()
ap.add_argument("--width", type=int, default=16, help="channels of the first stage")
ap.add_argument("--blocks", type=int, default=1, help="blocks in a stage")
ap.add_argument("--batch_size", type=int, default=32)
ap.add_argument("--image_size", type=int, default=32)
ap.add_argument("--steps_per_epoch", type=int, default=4)
ap.add_argument("--num_epochs", type=int, default=1)
ap.add_argument("--mixed_precision", action="store_true")
ap.add_argument("--augment", action="store_true")
ap.add_argument("--tensorboard_dir")
a = ap.parse_args()
if a.mixed_precision:
    tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")
inputs = x = tf.keras.Input((a.image_size, a.image_size, 3))
if a.augment:
    x = tf.keras.layers.RandomFlip()(x)
x = tf.keras.layers.Conv2D(a.width, 3, padding="same")(x)
for stage in range(3):
    for block in range(a.blocks):
        channels = a.width * 2**stage
        stride = 2 if stage and not block else 1
        h = tf.keras.layers.Conv2D(channels, 3, stride, padding="same", activation="relu")(x)
        h = tf.keras.layers.Conv2D(channels, 3, padding="same")(h)
        s = x if x.shape[-1] == channels and stride == 1 else tf.keras.layers.Conv2D(channels, 1, stride)(x)
        x = tf.keras.layers.ReLU()(h + s)
x = tf.keras.layers.GlobalAveragePooling2D()(x)
model = tf.keras.Model(inputs, tf.keras.layers.Dense(10, dtype="float32")(x))
model.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
n = a.batch_size * a.steps_per_epoch
images = np.random.rand(n, a.image_size, a.image_size, 3).astype("float32")
model.fit(images, np.random.randint(0, 10, n), batch_size=a.batch_size, epochs=a.num_epochs, verbose=2)
