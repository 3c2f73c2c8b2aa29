"""Flax linen with a TrainState, donated, on two devices of a host; one function trains or evaluates, by a static argument."""

import functools
import json
import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax.training.train_state import TrainState
from jax.sharding import Mesh, NamedSharding, PartitionSpec


class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(1)(nn.relu(nn.Dense(16)(x)))


net = Net()
state = TrainState.create(
    apply_fn=net.apply,
    params=net.init(jax.random.key(13), jnp.ones((1, 8)))["params"],
    tx=optax.sgd(1e-2, momentum=0.9),
)


@functools.partial(jax.jit, static_argnames="train", donate_argnames="state")
def run(state, x, train):
    def loss_of(params):
        return jnp.mean((state.apply_fn({"params": params}, x) - x.sum(1, keepdims=True)) ** 2)

    if not train:
        return loss_of(state.params)
    loss, gradients = jax.value_and_grad(loss_of)(state.params)
    return state.apply_gradients(grads=gradients), loss


over_devices = NamedSharding(Mesh(jax.devices(), ("batch",)), PartitionSpec("batch"))
losses = []
for key in jax.random.split(jax.random.key(14), 120):
    x = jax.device_put(jax.random.normal(key, (16, 8)), over_devices)
    state, loss = run(state, x, train=True)
    losses += [float(loss), float(run(jax.tree.map(jnp.copy, state), x, train=False))]
assert int(state.step) == 120
print(json.dumps({"steps": 120, "losses": losses}))
