"""What a model is built of, counted from the calls that build it.

Arrives: surveys and the values of their expressions. Leaves: how often each type of layer is made, and how many parameters that
makes where every size is to be read. Follows the script's own classes and functions with the arguments they are called with, and
loops over literal ranges. Ignores what has no parameters of its own: activations, dropout, reshaping.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice, product
from typing import Any

from gpuq.script.operations import UNKNOWN
from gpuq.script.parameters import parameters
from gpuq.script.survey import Call, Survey, keyword
from gpuq.script.values import Values

_PACKAGES = (
    *("torch.nn.", "keras.layers.", "tensorflow.keras.layers.", "tf.keras.layers.", "keras.src.layers."),
    *("flax.linen.", "flax.nnx.", "haiku.", "equinox.nn.", "torch_geometric.nn.", "paddle.nn.", "mxnet.gluon.nn."),
)
# Last names of what a class of a model derives from.
_MODULES = frozenset(
    {
        *("Module", "LightningModule", "Model", "PreTrainedModel", "FlaxPreTrainedModel", "Layer", "Sequential"),
        *("Block", "HybridBlock"),
    }
)
_NOT_LAYERS = frozenset(
    {
        *("Module", "ModuleList", "ModuleDict", "Sequential", "Parameter", "ParameterList", "DataParallel", "Input"),
        *("InputLayer", "Layer", "Model", "Flatten", "Unflatten", "Identity", "Reshape", "Lambda", "Permute"),
        *("Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "SpatialDropout1D", "SpatialDropout2D", "Upsample"),
        *("ReLU", "ReLU6", "LeakyReLU", "PReLU", "ELU", "SELU", "GELU", "SiLU", "Mish", "Sigmoid", "Tanh", "Softmax"),
        *("LogSoftmax", "Softplus", "Hardswish", "Activation", "ZeroPadding2D", "Rescaling", "Normalization"),
        *("RandomFlip", "RandomRotation", "RandomZoom", "Concatenate", "Add", "Variable", "Rngs", "Param"),
    }
)
_TRAINING = frozenset({"fit", "compile", "backward", "DataLoader", "parse_args", "train_on_batch", "apply_gradients"})
_TRAINERS = frozenset({"main", "train", "run", "fit"})
_MOST_CALLS = 4000
_MOST_TURNS = 64
_DEEPEST = 8


class Tally:
    """See the module's own words. `parameters` is None as soon as one layer's size cannot be read."""

    def __init__(self, surveys: Sequence[Survey], values: Values) -> None:
        self._surveys = surveys
        self._values = values
        self.layers: Counter[str] = Counter()
        self.parameters: int | None = 0
        self._left = _MOST_CALLS
        self._by_scope: dict[str, list[Call]] = {}
        for one in surveys:
            for call in one.calls:
                for scope in set(call.scopes):
                    self._by_scope.setdefault(scope, []).append(call)
        self.classes = self._module_classes()
        self.builders = self._builder_functions()

    def add(self, call: Call) -> None:
        """Count what this call of a model's class or function builds."""
        self._build(call.last, call, 0)

    def add_all(self) -> None:
        """Count every layer that is written anywhere, for scripts that do not say what they build."""
        for one in self._surveys:
            for call in one.calls:
                if _is_layer(call) and self._values.holds(call.guards):
                    self.layers[call.last] += 1
        self.parameters = None

    def scope_of(self, call: Call) -> str | None:
        """The model's class or function that a call stands in, the innermost; None outside of them."""
        return next((s for s in reversed(call.scopes) if s in self.classes or s in self.builders), None)

    def _build(self, name: str, call: Call, depth: int) -> None:
        if depth > _DEEPEST:
            self.parameters = None
            return
        self._values.push(self._bound(name, call.node))
        try:
            for inside in self._by_scope.get(name, ()):
                if self.scope_of(inside) == name and self._values.holds(inside.guards):
                    self._turns(inside, depth)
        finally:
            self._values.pop()

    def _turns(self, call: Call, depth: int) -> None:
        for frame in self._frames(call):
            if self._left <= 0:
                self.parameters = None
                return
            self._left -= 1
            self._values.push(frame)
            try:
                self._one(call, depth)
            finally:
                self._values.pop()

    def _one(self, call: Call, depth: int) -> None:
        if call.last in self.classes or call.last in self.builders:
            self._build(call.last, call, depth + 1)
        elif _is_layer(call):
            self.layers[call.last] += 1
            self._count(call)

    def _count(self, call: Call) -> None:
        if self.parameters is not None:
            found = parameters(call, self._values)
            self.parameters = None if found is None else self.parameters + found

    def _frames(self, call: Call) -> Iterator[dict[str, Any]]:
        """The loop variables of each turn of the loops around a call; one empty frame where there is none."""
        turns = []
        for target, iterated in call.loops:
            values = self._values.of(iterated)
            if not isinstance(values, tuple):
                # Nobody knows how often: counted once, and the parameters are not known.
                self.parameters = None
                values = (UNKNOWN,)
            turns.append([_named(target, value) for value in values])
        for frames in islice(product(*turns), _MOST_TURNS):
            yield {name: value for frame in frames for name, value in frame.items()}

    def _bound(self, name: str, node: ast.Call) -> dict[str, Any]:
        """What the parameters of a class or function are, called like this; as `self.x` too."""
        declared = next((one.parameters[name] for one in self._surveys if name in one.parameters), [])
        positional = self._positional(node)
        frame: dict[str, Any] = {}
        for place, (parameter, default) in enumerate(declared):
            given = keyword(node, parameter)
            if given is not None:
                value = self._values.of(given)
            elif place < len(positional):
                value = positional[place]
            else:
                value = UNKNOWN if UNKNOWN in positional[-1:] else self._values.of(default)
            frame[parameter] = frame[f".{parameter}"] = value
        return frame

    def _positional(self, node: ast.Call) -> list[Any]:
        """The values of the positional arguments; UNKNOWN is the last where nobody knows how many more there are."""
        found: list[Any] = []
        for argument in node.args:
            if not isinstance(argument, ast.Starred):
                found.append(self._values.of(argument))
                continue
            several = self._values.of(argument.value)
            if not isinstance(several, tuple):
                return [*found, UNKNOWN]
            found += several
        return found

    def _module_classes(self) -> frozenset[str]:
        """The script's classes that derive from a framework's module, directly or through each other."""
        bases = {name: found for one in reversed(self._surveys) for name, found in one.bases.items()}
        classes: set[str] = set()
        for _ in range(_DEEPEST):
            more = {
                name
                for name, found in bases.items()
                if any(base.rpartition(".")[2] in classes or _is_module(base) for base in found)
            }
            if more <= classes:
                break
            classes |= more
        return frozenset(classes)

    def _builder_functions(self) -> frozenset[str]:
        """The script's functions that make layers and do not train."""
        functions = {name for one in self._surveys for name in one.parameters if name not in one.bases}
        return frozenset(name for name in functions - _TRAINERS if self._only_builds(self._by_scope.get(name, ())))

    def _only_builds(self, calls: Sequence[Call]) -> bool:
        """Whether what makes these calls makes layers, does not train, and is no method of a model's class."""
        return (
            any(_is_layer(call) or _is_model(call) for call in calls)
            and not any(call.last in _TRAINING for call in calls)
            and not any(self.classes.intersection(call.scopes) for call in calls)
        )


def _is_layer(call: Call) -> bool:
    """Whether this makes a layer of a known framework that has something to do."""
    last = call.last
    named = last[:1].isupper() and last not in _NOT_LAYERS and not last.endswith(("Loss", "Init", "Norm1", "Error"))
    return named and call.name.startswith(_PACKAGES)


def _is_module(base: str) -> bool:
    return base.rpartition(".")[2] in _MODULES and base not in {"Model", "Layer", "Block"}


def _is_model(call: Call) -> bool:
    return call.last in {"Sequential", "Model"} and call.name.startswith(("keras", "tensorflow", "torch.nn", "tf."))


def _named(target: ast.expr, value: Any) -> dict[str, Any]:
    if isinstance(target, ast.Name):
        return {target.id: value}
    if isinstance(target, ast.Tuple):
        values = value if isinstance(value, tuple) and len(value) == len(target.elts) else (UNKNOWN,) * len(target.elts)
        return {
            name: one for part, its in zip(target.elts, values, strict=True) for name, one in _named(part, its).items()
        }
    return {}
