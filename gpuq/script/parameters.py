"""How many parameters one layer has, from what is written where it is made.

Arrives: the call that makes it, and the values of its arguments. Leaves: a number, or None where a size is not to be read. Knows
the layers of PyTorch; those of other frameworks learn the size of their input only when they run.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any

from gpuq.script.operations import UNKNOWN
from gpuq.script.survey import Call, argument
from gpuq.script.values import Values

Size = Callable[..., Any]
"""(place, name, default) of an argument -> its value."""

_WITHOUT_ANY = ("Pad", "Resizing", "Shuffle", "UpSampling")


def parameters(call: Call, values: Values) -> int | None:
    """The parameters of the layer that this call makes; None where its sizes are not written out."""
    if "Pool" in call.last or call.last.startswith(_WITHOUT_ANY):
        return 0
    counting = _COUNTING.get(call.last) if call.name.startswith("torch.nn.") else None
    if counting is None or any(isinstance(one, ast.Starred) for one in call.node.args):
        return None

    def size(place: int, name: str, default: Any = UNKNOWN) -> Any:
        node = argument(call.node, place, name)
        return default if node is None else values.of(node)

    try:
        found = counting(size)
    except (TypeError, ValueError, ArithmeticError):
        return None
    return found if isinstance(found, int) and 0 <= found < 10**13 else None


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
