"""A plain JAX loop with optax: a compiled step, a compiled evaluation beside it, batches of two sizes."""

import json

import jax
import jax.numpy as jnp
import optax

optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(optax.cosine_decay_schedule(1e-2, 200)))
keys = jax.random.split(jax.random.key(12), 150)
parameters = {"w": jax.random.normal(keys[0], (8, 1)), "b": jnp.zeros(1)}
state = optimizer.init(parameters)


def loss_of(parameters, x):
    return jnp.mean((x @ parameters["w"] + parameters["b"] - x.sum(1, keepdims=True)) ** 2)


@jax.jit
def step(parameters, state, x):
    loss, gradients = jax.value_and_grad(loss_of)(parameters, x)
    updates, state = optimizer.update(gradients, state, parameters)
    return optax.apply_updates(parameters, updates), state, loss


evaluate = jax.jit(loss_of)
losses = []
for number, key in enumerate(keys):
    parameters, state, loss = step(parameters, state, jax.random.normal(key, (16 - number % 2, 8)))
    losses.append(float(loss))
    losses.append(float(evaluate(parameters, jnp.ones((4, 8)))))
assert type(step) is type(evaluate) is type(jax.jit(lambda: 0))
assert isinstance(step, jax.stages.Wrapped)
assert step._cache_size() == 2
assert step.lower(parameters, state, jnp.ones((4, 8))).compile() is not None
print(json.dumps({"steps": 150, "losses": losses}))
