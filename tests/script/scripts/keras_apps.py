"""Keras inside TensorFlow, with a ready-made model and tf.data."""
import tensorflow as tf

IMG = (160, 160)
BATCH = 32
tf.keras.mixed_precision.set_global_policy("mixed_float16")
data = tf.data.Dataset.from_tensor_slices(files).shuffle(1000).batch(BATCH)
base = tf.keras.applications.MobileNetV2(input_shape=IMG + (3,), include_top=False)
inputs = tf.keras.Input(shape=IMG + (3,))
outputs = tf.keras.layers.Dense(1)(tf.keras.layers.GlobalAveragePooling2D()(base(inputs)))
model = tf.keras.Model(inputs, outputs)
model.compile(optimizer=tf.keras.optimizers.Adam(learning_rate=1e-4), loss="mse")
model.fit(data, epochs=5)
