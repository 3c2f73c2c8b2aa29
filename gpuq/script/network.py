"""The networks that a script trains under one command, by name, and the types of layer that it writes.

Names of a library's networks (`resnet50`) lead to `gpuq.learn.features.architectures`, which has their size and memory. For a
network of the script's own only the name of its class or function and the types of its layers are read: they make two scripts
alike. Branches that the command rules out, and entries of a table that it does not choose, do not count.

Layers are counted as they are written, and their sizes are not worked out: that changes no figure of "What parts of the predictor
are worth" (docs/measurements/forecasts.md). The settings that change a network's size (`--hidden 512`) are compared by name and
number instead, see `tunables`; sizes that are written out only by whether they are the same, see `fingerprint`.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from gpuq.script.expressions import argument, word
from gpuq.script.operations import UNKNOWN
from gpuq.script.survey import Call, Survey
from gpuq.script.values import Values

_MOST_CONSTRUCTORS = 16
_MOST_LAYERS = 32
_MOST_COUNTED = 100_000
_DEEPEST_BASE = 8
_MODEL_PACKAGES = (
    *("torchvision.models.", "keras.applications.", "tensorflow.keras.applications.", "segmentation_models_pytorch."),
    *("monai.networks.nets.", "keras_hub.models.", "keras_cv.models.", "keras_nlp.models."),
    "torch_geometric.nn.models.",
)
# Functions that make the model named by a text argument -> the position of that argument.
_MODEL_MAKERS = {"create_model": 0, "get_model": 0, "SentenceTransformer": 0, "YOLO": 0, "vision_learner": 1}
_NO_MODEL = re.compile(r"Tokenizer|Processor|FeatureExtractor|Config|Scheduler|Args|Weights")
_LAYER_PACKAGES = (
    *("torch.nn.", "keras.layers.", "tensorflow.keras.layers.", "tf.keras.layers.", "keras.src.layers."),
    *("flax.linen.", "flax.nnx.", "haiku.", "equinox.nn.", "torch_geometric.nn.", "paddle.nn.", "mxnet.gluon.nn."),
)
# Base classes of a network's class, by the last part of their names.
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


def network(surveys: Sequence[Survey], values: Values) -> dict[str, Any]:
    """`constructors` and `layers` as `gpuq.messages.submission.Hints` has them.

    `constructors` are names of networks in the order of the source, a library's and the script's own. `layers` counts each type
    of layer as it is written: one made in a loop counts once. Where no layer is written in code that this command reaches, those
    of the whole script count, since nothing tells which of them are made.
    """
    own = _own_networks(surveys)
    calls = list(_reached(surveys, values))
    names = [_ready_made(call, values) or _own_made(call, own, values) for call in calls]
    layers = Counter(call.last for call in calls if _is_layer(call))
    if not layers:
        layers = Counter(call.last for one in surveys for call in one.calls if _is_layer(call))
    return {
        "constructors": list(dict.fromkeys(name for name in names if word(name)))[:_MOST_CONSTRUCTORS],
        "layers": {name: min(count, _MOST_COUNTED) for name, count in layers.most_common(_MOST_LAYERS) if word(name)},
    }


def _own_networks(surveys: Sequence[Survey]) -> set[str]:
    """The names of the script's own classes and functions that make a network."""
    bases = {name: found for one in reversed(surveys) for name, found in one.bases.items()}
    classes: set[str] = set()
    # Classes that derive from a framework's module, directly or through each other.
    for _ in range(_DEEPEST_BASE):
        more = {
            name
            for name, found in bases.items()
            if any(base.rpartition(".")[2] in classes or _is_module(base) for base in found)
        }
        if more <= classes:
            break
        classes |= more
    calls_in: dict[str, list[Call]] = {}
    for call in (call for one in surveys for call in one.calls):
        for scope in set(call.scopes):
            calls_in.setdefault(scope, []).append(call)
    # Functions that make layers, do not train, and are no methods of a network's class.
    functions = {name for one in surveys for name in one.definitions if name not in one.bases} - _TRAINERS
    builders = {
        name
        for name in functions
        if any(_is_layer(call) or _is_model(call) for call in calls_in.get(name, ()))
        and not any(call.last in _TRAINING or classes.intersection(call.scopes) for call in calls_in[name])
    }
    return classes | builders


def _own_made(call: Call, own: set[str], values: Values) -> str | None:
    """Which of the script's own networks this call makes; None for other calls, and for parts of a network."""
    if own.intersection(call.scopes):
        return None
    name = call.last
    if isinstance(call.node.func, ast.Subscript):
        # `MODELS[args.net]()`: the entry that this command chooses.
        chosen = values.node(call.node.func)
        name = chosen.id if isinstance(chosen, ast.Name) else ""
    return name if name in own else None


def _reached(surveys: Sequence[Survey], values: Values) -> Iterator[Call]:
    """The calls that no condition of this command is known to skip, and that stand in nothing that it leaves unchosen."""
    calls = [call for one in surveys for call in one.calls]
    # What the script offers to choose from, by a condition or in a dictionary (`MODELS[args.net]()`).
    chosen: set[str] = set()
    offered: set[str] = set()
    for call in calls:
        (chosen if values.holds(call.guards) else offered).add(call.last)
        picked = values.node(call.node.func)
        if isinstance(call.node.func, ast.Subscript) and isinstance(picked, ast.Name):
            chosen.add(picked.id)
            offered |= {getattr(one, "id", "") for one in getattr(values.node(call.node.func.value), "values", ())}
    unchosen = (offered - chosen) & {name for one in surveys for name in one.definitions}
    return (call for call in calls if not unchosen.intersection(call.scopes) and values.holds(call.guards))


def _ready_made(call: Call, values: Values) -> str | None:
    """The name of a library's model that this call makes: `resnet50`, `AutoModel.from_pretrained:bert-base-uncased`."""
    node, last = call.node, call.last
    if _NO_MODEL.search(call.name):
        return None
    if last in {"from_pretrained", "from_config", "from_preset"} and "." in call.name:
        maker = ".".join(call.name.split(".")[-2:])
        return _with_value(maker, values.of(argument(node, 0, "pretrained_model_name_or_path")))
    if call.name == "torch.hub.load":
        return _text(values.of(argument(node, 1, "model")))
    if last in _MODEL_MAKERS:
        name = values.of(argument(node, _MODEL_MAKERS[last], "model_name"))
        if name is UNKNOWN and _MODEL_MAKERS[last] < len(node.args):
            name = getattr(node.args[_MODEL_MAKERS[last]], "id", UNKNOWN)
        return _with_value(last, name)
    if call.name.startswith(_MODEL_PACKAGES) and not last.startswith(("preprocess", "decode", "list_")):
        return last
    made_by = node.func
    if isinstance(made_by, ast.Subscript) and getattr(made_by.value, "attr", "") == "__dict__":
        return _text(values.of(made_by.slice))  # models.__dict__[args.arch]()
    if isinstance(made_by, ast.Call) and getattr(made_by.func, "id", "") == "getattr" and len(made_by.args) > 1:
        return _text(values.of(made_by.args[1]))  # getattr(models, args.arch)()
    return None


def _with_value(maker: str, value: Any) -> str:
    name = _text(value)
    if name is None:
        return maker
    # Of a local folder only the last part: paths are private.
    short = word(name.rstrip("/").rpartition("/")[2] if name.startswith(("/", ".", "~")) else name)
    return f"{maker}:{short}" if short else maker


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _is_layer(call: Call) -> bool:
    """Whether this makes a layer of a known framework that has parameters or work of its own."""
    last = call.last
    named = last[:1].isupper() and last not in _NOT_LAYERS and not last.endswith(("Loss", "Init", "Norm1", "Error"))
    return named and call.name.startswith(_LAYER_PACKAGES)


def _is_model(call: Call) -> bool:
    return call.last in {"Sequential", "Model"} and call.name.startswith(("keras", "tensorflow", "torch.nn", "tf."))


def _is_module(base: str) -> bool:
    # A bare `Model`, `Layer` or `Block` may be anything.
    return base.rpartition(".")[2] in _MODULES and base not in {"Model", "Layer", "Block"}
