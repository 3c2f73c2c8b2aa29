"""What a model is built of, counted from the calls that build it.

Arrives: surveys and the values of their expressions. Leaves: how often each type of layer is made, and how many parameters that
makes where every size is to be read. Follows the script's own classes and functions with the arguments they are called with, and
loops over literal ranges. Ignores what has no parameters of its own: activations, dropout, reshaping.
"""

from __future__ import annotations

import ast
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, product
from typing import Any

from gpuq.script.survey import Call, Survey, keyword
from gpuq.script.values import UNKNOWN, Values

PACKAGES = (
    *("torch.nn.", "keras.layers.", "tensorflow.keras.layers.", "tf.keras.layers.", "keras.src.layers."),
    *("flax.linen.", "flax.nnx.", "haiku.", "equinox.nn.", "torch_geometric.nn.", "paddle.nn.", "mxnet.gluon.nn."),
)
MODULES = (
    *("Module", "LightningModule", "Model", "PreTrainedModel", "Layer", "Sequential", "Block", "HybridBlock"),
    *("LightningModule", "FlaxPreTrainedModel"),
)
"""Last names of what a class of a model derives from."""
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
_WITHOUT_PARAMETERS = ("Pool", "Pooling", "UpSampling", "Padding", "Pad", "Shuffle", "Resizing")
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
                if is_layer(call) and self._values.holds(call.guards):
                    self.layers[call.last] += 1
        self.parameters = None

    def scope_of(self, call: Call) -> str | None:
        """The model's class or function that a call stands in; None outside of them."""
        return next((scope for scope in call.scopes if scope in self.classes or scope in self.builders), None)

    def _build(self, name: str, call: Call, depth: int) -> None:
        if depth > _DEEPEST:
            self.parameters = None
            return
        self._values.push(self._bound(name, call.node))
        try:
            for inside in self._by_scope.get(name, ()):
                if self._innermost(inside) == name and self._values.holds(inside.guards):
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
        elif is_layer(call):
            self.layers[call.last] += 1
            self._count(call)

    def _count(self, call: Call) -> None:
        if self.parameters is None or call.last.startswith(_WITHOUT_PARAMETERS) or "Pool" in call.last:
            return
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

    def _innermost(self, call: Call) -> str | None:
        return next((s for s in reversed(call.scopes) if s in self.classes or s in self.builders), None)

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
        return frozenset(
            name
            for name in functions & self._by_scope.keys()
            if any(is_layer(call) or _is_model(call) for call in self._by_scope[name])
            and not any(call.last in _TRAINING for call in self._by_scope[name])
            and name not in {"main", "train", "run", "fit"}
            and not any(
                name in call.scopes and scope in self.classes for call in self._by_scope[name] for scope in call.scopes
            )
        )


_TRAINING = frozenset({"fit", "compile", "backward", "DataLoader", "parse_args", "train_on_batch", "apply_gradients"})


def is_layer(call: Call) -> bool:
    """Whether this makes a layer of a known framework that has something to do."""
    return call.name.startswith(PACKAGES) and _shaped(call.last)


def _shaped(last: str) -> bool:
    return last[:1].isupper() and last not in _NOT_LAYERS and not last.endswith(("Loss", "Init", "Norm1", "Error"))


def _is_module(base: str) -> bool:
    return (base.rpartition(".")[2] in MODULES and base not in {"Model", "Layer", "Block"}) or base.endswith(
        "nn.Module"
    )


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


# --- how many parameters one layer has ------------------------------------------------------------------------------


def parameters(call: Call, values: Values) -> int | None:
    """The parameters of one layer of PyTorch whose sizes are written out; None where they are not.

    Layers of other frameworks learn the size of their input only when they run.
    """
    counting = _COUNTING.get(call.last) if call.name.startswith("torch.nn.") else None
    if counting is None:
        return None

    def size(place: int, name: str, default: Any = UNKNOWN) -> Any:
        node = keyword(call.node, name)
        if node is None and place < len(call.node.args):
            node = call.node.args[place]
        return default if node is None else values.of(node)

    if any(isinstance(argument, ast.Starred) for argument in call.node.args):
        return None
    try:
        found = counting(size)
    except (TypeError, ValueError, ArithmeticError):
        return None
    return found if isinstance(found, int) and 0 <= found < 10**13 else None


Size = Callable[..., Any]


def _linear(size: Size) -> int | None:
    into, out = size(0, "in_features"), size(1, "out_features")
    return int(into * out + (out if size(2, "bias", True) else 0))


def _convolution(dimensions: int, turned: bool = False) -> Callable[[Size], int | None]:
    def count(size: Size) -> int | None:
        into, out, kernel = size(0, "in_channels"), size(1, "out_channels"), size(2, "kernel_size")
        cells = math.prod(kernel) if isinstance(kernel, tuple) else kernel**dimensions
        groups, bias = size(6 if not turned else 99, "groups", 1), size(7 if not turned else 99, "bias", True)
        return int(into * out * cells // groups + (out if bias else 0))

    return count


def _embedding(size: Size) -> int | None:
    return int(size(0, "num_embeddings") * size(1, "embedding_dim"))


def _recurrent(gates: int) -> Callable[[Size], int | None]:
    def count(size: Size) -> int | None:
        into, hidden, deep = size(0, "input_size"), size(1, "hidden_size"), size(2, "num_layers", 1)
        ways = 2 if size(99, "bidirectional", False) else 1
        total = 0
        for layer in range(min(deep, 1000)):
            total += ways * gates * (hidden * (into if layer == 0 else ways * hidden) + hidden * hidden + 2 * hidden)
        return int(total)

    return count


def _normalisation(size: Size) -> int | None:
    shape = size(0, "num_features", size(0, "normalized_shape"))
    return int(2 * (math.prod(shape) if isinstance(shape, tuple) else shape))


def _group_normalisation(size: Size) -> int | None:
    return int(2 * size(1, "num_channels"))


def _attention(size: Size) -> int | None:
    width = size(0, "embed_dim")
    return int(4 * width * width + 4 * width)


def _encoder_layer(size: Size) -> int | None:
    width, inner = size(0, "d_model"), size(2, "dim_feedforward", 2048)
    return int(4 * width * width + 4 * width + 2 * width * inner + inner + width + 4 * width)


_COUNTING: dict[str, Callable[[Size], int | None]] = {
    "Linear": _linear,
    "Conv1d": _convolution(1),
    "Conv2d": _convolution(2),
    "Conv3d": _convolution(3),
    "ConvTranspose2d": _convolution(2, turned=True),
    "Embedding": _embedding,
    "LSTM": _recurrent(4),
    "GRU": _recurrent(3),
    "RNN": _recurrent(1),
    "BatchNorm1d": _normalisation,
    "BatchNorm2d": _normalisation,
    "BatchNorm3d": _normalisation,
    "LayerNorm": _normalisation,
    "GroupNorm": _group_normalisation,
    "MultiheadAttention": _attention,
    "TransformerEncoderLayer": _encoder_layer,
}
