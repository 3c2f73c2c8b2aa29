"""Equinox with optax under `filter_jit`."""

import json

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

model = eqx.nn.MLP(8, 1, 16, 1, key=jax.random.key(17))
optimizer = optax.adam(1e-2)
state = optimizer.init(eqx.filter(model, eqx.is_array))


@eqx.filter_value_and_grad
def loss_of(model, x):
    return jnp.mean((jax.vmap(model)(x) - x.sum(1, keepdims=True)) ** 2)


@eqx.filter_jit
def step(model, state, x):
    loss, gradients = loss_of(model, x)
    updates, state = optimizer.update(gradients, state, eqx.filter(model, eqx.is_array))
    return eqx.apply_updates(model, updates), state, loss


losses = []
for key in jax.random.split(jax.random.key(18), 120):
    model, state, loss = step(model, state, jax.random.normal(key, (16, 8)))
    losses.append(float(loss))
print(json.dumps({"steps": 120, "losses": losses}))
