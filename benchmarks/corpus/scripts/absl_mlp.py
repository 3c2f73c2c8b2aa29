"""A Keras network with absl flags."""
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf
from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_integer("hidden_size", 256, "Units of each layer.")
flags.DEFINE_integer("num_layers", 2, "Layers.")
flags.DEFINE_integer("train_batch_size", 128, "Examples in a step.")
flags.DEFINE_integer("train_steps", 40, "Steps.")
flags.DEFINE_float("learning_rate", 0.001, "Learning rate.")
flags.DEFINE_string("model_dir", "/tmp/absl", "Where summaries go.")
flags.DEFINE_bool("use_ema", False, "Average the weights.")


def main(_):
    layers = [tf.keras.layers.Dense(FLAGS.hidden_size, activation="gelu") for _ in range(FLAGS.num_layers)]
    model = tf.keras.Sequential([tf.keras.layers.Input((784,)), *layers, tf.keras.layers.Dense(10)])
    adam = tf.keras.optimizers.Adam(FLAGS.learning_rate, use_ema=FLAGS.use_ema)
    model.compile(adam, tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    for _ in range(FLAGS.train_steps):
        x = np.random.rand(FLAGS.train_batch_size, 784).astype("float32")
        model.train_on_batch(x, np.random.randint(0, 10, FLAGS.train_batch_size))


if __name__ == "__main__":
    app.run(main)
