"""One tight training loop, in turns with the hook and without it. Runs in the framework's environment, without gpuq.

The name of a loop arrives; one line of JSON leaves: pairs of what a step took with the hook and without it. The hook is the
real one, brought in by its `sitecustomize`.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

PAIRS = 10
# Short turns, so that a busy neighbour meets both kinds; together long enough for many looks at Keras' `iterations`.
_TURNS, _TURN_STEPS = 24, 64


def main(name: str) -> None:
    """Prints what was measured."""
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    steps, wait, own = _LOOPS[name]()
    for on in (True, False):
        _turn(steps, wait, on)
    pairs = [_pair(steps, wait, first=number % 2 == 0) for number in range(PAIRS)]
    print(json.dumps({"pairs": pairs, **_own_cost(own)}))


def _own_cost(own: dict[str, Any]) -> dict[str, float]:
    """CPU seconds of what the hook itself does, once: the least of some tries, since neighbours only add to it."""
    act, tries = own.pop("act"), []
    for _ in range(20):
        began = time.thread_time()
        for _ in range(500):
            act()
        tries.append((time.thread_time() - began) / 500)
    return {"own_s": min(tries), **own}


def _pair(steps: Any, wait: Callable[[Any], object], *, first: bool) -> list[dict[str, float]]:
    turns: dict[bool, list[dict[str, float]]] = {True: [], False: []}
    for number in range(_TURNS):
        # Each goes first every other time: what drifts harms both alike.
        for on in (first, not first) if number % 2 == 0 else (not first, first):
            turns[on].append(_turn(steps, wait, on))
    return [_of(turns[on]) for on in (True, False)]


def _of(turns: list[dict[str, float]]) -> dict[str, float]:
    """All steps, and what one took in the turn in the middle: a neighbour who falls into some turns says nothing."""
    middle = {key: statistics.median(turn[key] for turn in turns) / _TURN_STEPS for key in ("wall_s", "cpu_s")}
    return {"steps": sum(turn["steps"] for turn in turns), **middle}


def _turn(steps: Any, wait: Callable[[Any], object], on: bool) -> dict[str, float]:
    with steps(on) as step:
        wait(step())
        cpu, wall = time.process_time(), time.perf_counter()
        for _ in range(_TURN_STEPS):
            last = step()
        wait(last)
        return {"steps": _TURN_STEPS, "wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}


def _torch() -> Any:
    import torch
    from torch.optim import optimizer as hooked

    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(128, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
    optimizer = torch.optim.Adam(model.parameters())
    x, y = torch.randn(352, 128), torch.randn(352, 1)
    hooks = hooked._global_optimizer_post_hooks
    ours = dict(hooks)

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()

    @contextlib.contextmanager
    def steps(on: bool) -> Iterator[Any]:
        if not on:
            hooks.clear()
        yield step
        hooks.update(ours)

    return steps, lambda _: None, {"act": lambda: [hook() for hook in ours.values()]}


def _keras_tensorflow() -> Any:
    os.environ["KERAS_BACKEND"] = "tensorflow"
    import gpuq_progress_keras
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    model, x, y = _keras_model()
    batches = iter(tf.data.Dataset.from_tensors((x, y)).repeat())
    watch = gpuq_progress_keras._watch
    look = watch.poll

    @contextlib.contextmanager
    def steps(on: bool) -> Iterator[Any]:
        watch.poll = look if on else lambda: None
        # What `fit` calls for each step, without its bookkeeping around: as tight as a loop over Keras can be.
        yield lambda: model.train_function(batches)
        watch.poll = look

    return steps, lambda _: None, {"act": look, "every_s": gpuq_progress_keras._POLL_EVERY_S}


def _keras_jax() -> Any:
    os.environ["KERAS_BACKEND"] = "jax"
    import jax

    kinds = ("trainable_variables", "non_trainable_variables", "optimizer_variables", "metrics_variables")
    functions, held, batch = {}, {}, None
    for on in (True, False):
        with _hook(on):
            model, *batch = _keras_model()
        functions[on] = model.train_function
        state = model._get_jax_state(**dict.fromkeys(kinds, True), purge_model_variables=False)
        held[on] = jax.tree.map(lambda leaf: leaf.copy(), state)  # the function eats what it is given

    @contextlib.contextmanager
    def steps(on: bool) -> Iterator[Any]:
        # What `fit` calls for each step, without its bookkeeping around.
        def step() -> Any:
            _, held[on] = functions[on](held[on], iter([batch]))
            return held[on]

        yield step

    return steps, jax.block_until_ready, {"act": _jax_act()}


def _optax() -> Any:
    import jax
    import jax.numpy as jnp
    import optax

    optimizer = optax.adam(1e-3)
    keys = jax.random.split(jax.random.key(1), 4)
    x, y = jax.random.normal(keys[0], (64, 512)), jax.random.normal(keys[1], (64, 1))
    weights = [jax.random.normal(keys[2], (512, 512)), jax.random.normal(keys[3], (512, 1))]

    def loss_of(weights: Any) -> Any:
        return jnp.mean((jax.nn.relu(x @ weights[0]) @ weights[1] - y) ** 2)

    def update(weights: Any, state: Any) -> Any:
        updates, state = optimizer.update(jax.grad(loss_of)(weights), state)
        return optax.apply_updates(weights, updates), state

    held: dict[bool, Any] = {}
    compiled = {}
    for on in (True, False):
        with _hook(on):
            # A function of its own: JAX would take one that it knows from its cache, counted or not.
            compiled[on] = jax.jit(functools.partial(update))
            held[on] = compiled[on](*compiled[on](weights, optimizer.init(weights)))

    @contextlib.contextmanager
    def steps(on: bool) -> Iterator[Any]:
        def step() -> Any:
            held[on] = compiled[on](*held[on])
            return held[on]

        yield step

    return steps, jax.block_until_ready, {"act": _jax_act()}


def _jax_act() -> Callable[[], object]:
    import gpuq_progress_jax

    steps = gpuq_progress_jax._Steps(1)
    return lambda: gpuq_progress_jax._build(steps, (None,))


@contextlib.contextmanager
def _hook(on: bool) -> Iterator[None]:
    """Functions that JAX compiles meanwhile are counted, or are made as if there were no hook."""
    from jaxlib import _jax

    ours = _jax.pjit
    if not on:
        _jax.pjit = ours.__wrapped__
    yield
    _jax.pjit = ours


def _keras_model() -> Any:
    import keras
    import numpy as np

    keras.utils.set_random_seed(1)
    layers = [keras.layers.Dense(512, "relu"), keras.layers.Dense(128, "relu"), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((256,)), *layers])
    model.compile("adam", "mse")
    x, y = np.random.default_rng(1).random((64, 256), "f"), np.zeros((64, 1), "f")
    model.train_on_batch(x, y)
    model.train_on_batch(x, y)
    return model, x, y


_LOOPS: dict[str, Callable[[], Any]] = {
    "torch": _torch,
    "keras-tensorflow": _keras_tensorflow,
    "keras-jax": _keras_jax,
    "optax": _optax,
}

if __name__ == "__main__":
    main(sys.argv[1])
