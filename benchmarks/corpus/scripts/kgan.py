"""A convolutional GAN with Keras; the options are those of PyTorch's dcgan."""
import argparse
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf

ap = argparse.ArgumentParser()
ap.add_argument("--batchSize", type=int, default=16)
ap.add_argument("--imageSize", type=int, default=32)
ap.add_argument("--nz", type=int, default=64)
ap.add_argument("--ngf", type=int, default=16)
ap.add_argument("--ndf", type=int, default=16)
ap.add_argument("--niter", type=int, default=4)
ap.add_argument("--beta1", type=float, default=0.5)
ap.add_argument("--manualSeed", type=int, default=1)
opt = ap.parse_args()
tf.random.set_seed(opt.manualSeed)
L = tf.keras.layers
side = opt.imageSize // 4
G = tf.keras.Sequential(
    [
        L.Input((opt.nz,)),
        L.Dense(side * side * opt.ngf * 4),
        L.Reshape((side, side, opt.ngf * 4)),
        L.Conv2DTranspose(opt.ngf * 2, 4, 2, "same", activation="relu"),
        L.Conv2DTranspose(3, 4, 2, "same", activation="tanh"),
    ]
)
D = tf.keras.Sequential(
    [
        L.Input((opt.imageSize, opt.imageSize, 3)),
        L.Conv2D(opt.ndf, 4, 2, "same", activation="leaky_relu"),
        L.Conv2D(opt.ndf * 2, 4, 2, "same", activation="leaky_relu"),
        L.Flatten(),
        L.Dense(1),
    ]
)
gopt, dopt = (tf.keras.optimizers.Adam(2e-4, beta_1=opt.beta1) for _ in range(2))
bce = tf.keras.losses.BinaryCrossentropy(from_logits=True)
for it in range(opt.niter):
    real = tf.random.uniform((opt.batchSize, opt.imageSize, opt.imageSize, 3))
    noise = tf.random.normal((opt.batchSize, opt.nz))
    with tf.GradientTape() as t1, tf.GradientTape() as t2:
        fake = G(noise, training=True)
        r, f = D(real, training=True), D(fake, training=True)
        gl = bce(tf.ones_like(f), f)
        dl = bce(tf.ones_like(r), r) + bce(tf.zeros_like(f), f)
    gopt.apply_gradients(zip(t1.gradient(gl, G.trainable_variables), G.trainable_variables))
    dopt.apply_gradients(zip(t2.gradient(dl, D.trainable_variables), D.trainable_variables))
    print(it, float(gl), float(dl))
