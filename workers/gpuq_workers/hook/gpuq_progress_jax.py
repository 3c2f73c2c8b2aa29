"""Counts the calls of compiled JAX functions that update parameters. Their results stay the same, to the bit.

JAX runs a function's Python only while it traces it; after that a step is one call of compiled code, from C++. Two places are
used. While tracing, `optax.apply_updates` (also Equinox's, and `apply` of a Keras optimizer) shows that the outermost compiled
function being traced is a training step. And every compiled function of JAX has a slow path in Python, which runs at the first
call and gives C++ what it needs for the next calls; among it the shape of the outputs, a tree that C++ builds after each call.
Around that tree of a training step we put a node that only counts when it is built and leaves nothing in the outputs. So what
`jax.jit` returns is JAX's own object, with its fast path.

A call counts as one step, even if it holds a whole loop (`lax.scan`). An update outside of compiled code counts at once. Not
seen are functions compiled ahead of time (`.lower().compile()`) and updates written by hand.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import sys
import threading
import weakref
from types import ModuleType
from typing import Any, Callable  # noqa: UP035 - the job's Python may be 3.8

import gpuq_progress


def attach(module: ModuleType) -> None:
    """Instrument this freshly imported module: JAX's C++ part, or one that applies updates."""
    if not module.__name__.startswith("jaxlib."):
        gpuq_progress.saw(gpuq_progress.SAW_JAX_OPTIMIZER)
        module.apply_updates = _watching(module.apply_updates, lambda *_: 1)  # type: ignore[attr-defined]
        return
    gpuq_progress.saw(gpuq_progress.SAW_JAX)
    original = module.pjit
    if hasattr(original, "__wrapped__"):
        return  # one of the two modules re-exports the other's

    @functools.wraps(original)
    def pjit(name: str, function: Any, slow_path: Any, *rest: Any, **named: Any) -> Any:
        return original(name, function, _SlowPath(slow_path, function), *rest, **named)

    module.pjit = pjit  # type: ignore[attr-defined]


def watch_method(owner: type, name: str, calls_per_step: Callable[[Any], int]) -> None:
    """Count the calls of this method of `owner`; `calls_per_step` of its object says how many calls are one step."""
    gpuq_progress.saw(gpuq_progress.SAW_JAX_OPTIMIZER)
    setattr(owner, name, _watching(getattr(owner, name), lambda self, *_: calls_per_step(self)))


class _Steps:
    """Counts the steps of one compiled function."""

    def __init__(self, calls_per_step: int) -> None:
        self._per_step = calls_per_step
        self._calls = 0

    def called(self) -> None:
        self._calls += 1
        if self._calls % self._per_step == 0:
            gpuq_progress.add(1, gpuq_progress.JAX)


class _Frame:
    """A slow path that is running, and the steps of its function if an update was seen in it."""

    __slots__ = ("steps",)

    def __init__(self) -> None:
        self.steps: _Steps | None = None


class _Thread(threading.local):
    """The slow paths that run in this thread, outermost first, and the nesting depth of updating functions."""

    def __init__(self) -> None:
        self.frames: list[_Frame] = []
        self.updates = 0


class _SlowPath:
    """Wraps JAX's slow path of one compiled function: counts that call, and makes C++ count the later ones."""

    __slots__ = ("_function", "_slow_path")

    def __init__(self, slow_path: Any, function: Any) -> None:
        self._slow_path = slow_path
        self._function = function

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        frames, frame = _thread.frames, _Frame()
        frames.append(frame)
        try:
            answer = self._slow_path(*arguments, **named)
        finally:
            frames.pop()
        try:
            return self._judge(frame.steps, answer)
        except Exception:  # noqa: BLE001 - the job must run, counted or not
            return answer

    def __reduce__(self) -> Any:
        # Pickles as the original slow path, so that it can be loaded where this hook is not installed.
        return operator.getitem, ((self._slow_path,), 0)

    def _judge(self, seen: _Steps | None, answer: Any) -> Any:
        steps = _steps_of(self._function, seen, answer[0])
        if steps is None:
            return answer
        if _thread.frames:
            # Not a call of its own: it runs while the function around it is traced.
            outer = _thread.frames[-1]
            outer.steps = outer.steps or steps
            return answer
        steps.called()
        outputs, fast_path = answer[:2]
        if fast_path is None:
            return answer
        tree = _counting_tree(steps).compose(fast_path.out_pytree_def)
        return (outputs, fast_path._replace(out_pytree_def=tree), *answer[2:])


def _steps_of(function: Any, seen: _Steps | None, outputs: Any) -> _Steps | None:
    """The counter of this call; None if it is no training step.

    Where no update was seen, the function may have been traced before, for another `jax.jit` of it or for data on another
    device. Then its outputs have the shape of a step's outputs, which an evaluation by the same function rarely has.
    """
    if seen is None and function not in _known:
        return None
    shape = sys.modules["jax"].tree_util.tree_structure(outputs)
    steps_by_shape = _known.setdefault(function, {})
    if seen is not None:
        steps_by_shape.setdefault(shape, seen)
    return steps_by_shape.get(shape)  # type: ignore[no-any-return]


class _Outputs:
    """The tree node around the outputs of a training step. Its instances never hold outputs."""


def _counting_tree(steps: _Steps) -> Any:
    """A tree of one leaf that counts a step whenever it is built."""
    tree_util = sys.modules["jax._src.tree_util"]
    if not _registered:
        tree_util.register_pytree_node(_Outputs, _take_apart, _build)
        _registered.append(True)
    node = _Outputs()
    node.steps = steps  # type: ignore[attr-defined]
    registry = getattr(tree_util, "dispatch_registry", None) or tree_util.default_registry
    return registry.flatten(node, None)[1]


def _take_apart(node: Any) -> Any:
    return (0,), node.steps


def _build(steps: _Steps, outputs: Any) -> Any:
    steps.called()
    return outputs[0]


def _watching(update: Any, calls_per_step: Callable[..., int]) -> Any:
    """`update`, followed by a note that parameters were updated."""

    @functools.wraps(update)
    def watched(*arguments: Any, **named: Any) -> Any:
        _thread.updates += 1
        try:
            result = update(*arguments, **named)
        finally:
            _thread.updates -= 1
        if not _thread.updates:  # an optimizer with loss scaling applies another one inside
            with contextlib.suppress(Exception):  # the job must run, counted or not
                _note(arguments, named, calls_per_step(*arguments))
        return result

    return watched


def _note(arguments: Any, named: Any, calls_per_step: int) -> None:
    jax = sys.modules["jax"]
    tracer = jax.core.Tracer
    if not any(isinstance(leaf, tracer) for leaf in jax.tree_util.tree_leaves((arguments, named))):
        _eager.setdefault(calls_per_step, _Steps(calls_per_step)).called()
    elif _thread.frames:
        frame = _thread.frames[-1]
        frame.steps = frame.steps or _Steps(calls_per_step)
    else:
        gpuq_progress.saw(gpuq_progress.SAW_UPDATE_OUT_OF_SIGHT)


_thread = _Thread()
_registered: list[bool] = []
_known: Any = weakref.WeakKeyDictionary()
_eager: dict[int, _Steps] = {}
