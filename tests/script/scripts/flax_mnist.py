"""JAX with Flax, Optax and flags of absl."""
import jax
import jax.numpy as jnp
import optax
from absl import app, flags
from flax import linen as nn

FLAGS = flags.FLAGS
flags.DEFINE_integer("batch_size", 128, "samples in a step")
flags.DEFINE_integer("num_epochs", 10, "times through the data")


class CNN(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(features=32, kernel_size=(3, 3), dtype=jnp.bfloat16)(x))
        x = nn.relu(nn.Conv(features=64, kernel_size=(3, 3), dtype=jnp.bfloat16)(x))
        return nn.Dense(features=10)(x.reshape((x.shape[0], -1)))


def main(_):
    model = CNN()
    tx = optax.sgd(0.1, 0.9)
    params = model.init(jax.random.key(0), jnp.ones([1, 28, 28, 1]))


app.run(main)
