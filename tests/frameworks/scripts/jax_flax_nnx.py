"""Flax NNX: a module and its optimizer, changed in place by a compiled step; then optax without compiling."""

import json

import jax
import jax.numpy as jnp
import optax
from flax import nnx


class Net(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(8, 16, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)
        self.second = nnx.Linear(16, 1, rngs=rngs)

    def __call__(self, x):
        return self.second(self.dropout(nnx.relu(self.first(x))))


model = Net(nnx.Rngs(15))
optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)


def loss_of(model, x):
    return jnp.mean((model(x) - x.sum(1, keepdims=True)) ** 2)


@nnx.jit
def step(model, optimizer, x):
    loss, gradients = nnx.value_and_grad(loss_of)(model, x)
    optimizer.update(model, gradients)
    return loss


losses = []
for key in jax.random.split(jax.random.key(16), 120):
    losses.append(float(step(model, optimizer, jax.random.normal(key, (16, 8)))))
eager, weights = optax.sgd(1e-2), jnp.ones(8)
state = eager.init(weights)
for _ in range(30):
    gradient = jax.grad(lambda w: jnp.sum(w**2))(weights)
    updates, state = eager.update(gradient, state)
    weights = optax.apply_updates(weights, updates)
    losses.append(float(weights.sum()))
print(json.dumps({"steps": 150, "losses": losses}))
