"""Ways in which compiled functions of JAX are used: each must be counted as said, and behave as if nobody counted."""

import functools
import json
import os
import struct

import gpuq_progress
import jax
import jax.numpy as jnp
import optax

optimizer = optax.adam(1e-3)
x = jnp.ones((16, 8))
wrong = []


def loss_of(parameters, x):
    return jnp.mean((x @ parameters["w"]) ** 2)


def update(parameters, state, x, train=True):
    if not train:
        return loss_of(parameters, x)
    loss, gradients = jax.value_and_grad(loss_of)(parameters, x)
    updates, state = optimizer.update(gradients, state, parameters)
    return optax.apply_updates(parameters, updates), state, loss


def fresh():
    parameters = {"w": jnp.ones((8, 4))}
    return parameters, optimizer.init(parameters)


def loop(step, times=10):
    parameters, state = fresh()
    for _ in range(times):
        parameters, state, _ = step(parameters, state, x)


def expect(name, truth, found):
    if truth != found:
        wrong.append(f"{name}: {found}, not {truth}")


def counted():
    """The steps in the only slot of the counter's file."""
    with open(os.environ["GPUQ_PROGRESS"], "rb") as file:
        slot = file.read()[gpuq_progress.HEADER_SIZE :]
    return struct.unpack_from("<Q", slot, 40 if slot and slot[0] & 1 else 16)[0] if slot else 0


def counts(name, steps, act):
    before = counted()
    act()
    expect(name, steps, counted() - before)


def another():
    """The same work as `update`, but traced anew."""
    return lambda *arguments: update(*arguments)


counts("compiled", 10, lambda: loop(jax.jit(update)))
counts("compiled with donation", 10, lambda: loop(jax.jit(update, donate_argnums=(0, 1))))
counts("not compiled", 10, lambda: loop(update))
counts("compiled again for each step", 10, lambda: [loop(jax.jit(update), 1) for _ in range(10)])
counts("compiled by name", 10, lambda: loop(jax.jit(functools.partial(update, train=True))))

either = jax.jit(update, static_argnames="train")
counts("training by a static argument", 10, lambda: loop(functools.partial(either, train=True)))
counts("evaluation by a static argument", 0, lambda: [either(*fresh(), x, train=False) for _ in range(10)])

inner = jax.jit(another())
counts("one inside of another", 10, lambda: loop(jax.jit(lambda *arguments: inner(*arguments))))
counts("the inner one alone", 10, lambda: loop(inner))
counts("the traced one inside of a third", 10, lambda: loop(jax.jit(lambda *arguments: inner(*arguments))))


def spoken(*arguments):
    jax.debug.callback(lambda value: None, arguments[2][0, 0])
    return update(*arguments)


counts("with a side effect", 10, lambda: loop(jax.jit(spoken)))


def epoch(parameters, state, x):
    def body(carry, x):
        parameters, state, loss = update(*carry, x)
        return (parameters, state), loss

    (parameters, state), losses = jax.lax.scan(body, (parameters, state), jnp.stack([x] * 7))
    return parameters, state, losses[-1]


counts("a loop inside: one for each call", 10, lambda: loop(jax.jit(epoch)))


def without_jit():
    with jax.disable_jit():
        loop(jax.jit(update), 3)


counts("compilation off", 3, without_jit)


def over_devices():
    step = jax.pmap(update)
    parameters, state, data = jax.tree.map(lambda leaf: leaf[None], (*fresh(), x))
    for _ in range(10):
        parameters, state, _ = step(parameters, state, data)


counts("pmap", 10, over_devices)
counts("only looked at", 0, lambda: (jax.eval_shape(another(), *fresh(), x), jax.make_jaxpr(another())(*fresh(), x)))
counts("something else", 0, lambda: [jax.jit(loss_of)(fresh()[0], x) for _ in range(10)])


def differentiated():
    step = jax.jit(another())
    for _ in range(4):
        jax.grad(lambda parameters, state: loss_of(step(parameters, state, x)[0], x))(*fresh())


counts("differentiated through", 4, differentiated)


class Trainer:
    @functools.partial(jax.jit, static_argnums=0)
    def step(self, *arguments):
        return update(*arguments)


counts("a method", 10, lambda: loop(Trainer().step))


def forgotten():
    step = jax.jit(another())
    loop(step)
    step.clear_cache()
    loop(step)
    jax.clear_caches()
    loop(step)


counts("caches cleared", 30, forgotten)


def failing():
    def step(*arguments):
        update(*arguments)
        raise ValueError("of its own")

    try:
        jax.jit(step)(*fresh(), x)
    except ValueError as error:
        expect("its error", "of its own", str(error))


counts("a step that fails", 0, failing)
counts("one after it", 10, lambda: loop(jax.jit(another())))

step = jax.jit(update)
out = step(*fresh(), x)
again = step(*fresh(), x)
expect("outputs of the fast path", jax.tree.structure(out), jax.tree.structure(again))
expect("their type", "tuple", type(again).__name__)
expect("its type", "PjitFunction", type(step).__name__)
expect("its protocol", True, isinstance(step, jax.stages.Wrapped))
expect("its name", "update", step.__name__)
expect("what it wraps", True, step.__wrapped__ is update)
expect("its cache", True, step._cache_size() >= 1)
expect("its trace", 1, len(step.trace(*fresh(), x).jaxpr.eqns[:1]))
expect("its lowering", True, "hlo" in step.lower(*fresh(), x).as_text("hlo").lower())
print(json.dumps({"wrong": wrong}))
