"""Which networks a command makes of all that its script could make, and what they are built of.

Arrives: surveys and the values of their expressions. Leaves: `constructors`, the names of a library's models and of the script's
own; `layers` of the latter; `parameters` where every model is the script's own. Passes over what the script offers to choose
from and this command does not choose.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Any

from gpuq.script.layers import Tally
from gpuq.script.operations import UNKNOWN
from gpuq.script.survey import Call, Survey, argument
from gpuq.script.values import Values
from gpuq.script.word import word

_MOST_CONSTRUCTORS = 16
_MOST_LAYERS = 32
_MOST_COUNTED = 100_000
_MOST_PARAMETERS = 10**13
_MODEL_PACKAGES = (
    *("torchvision.models.", "keras.applications.", "tensorflow.keras.applications.", "segmentation_models_pytorch."),
    *("monai.networks.nets.", "keras_hub.models.", "keras_cv.models.", "keras_nlp.models."),
    "torch_geometric.nn.models.",
)
# Functions that make the model their first text names.
_MODEL_MAKERS = {"create_model": 0, "get_model": 0, "SentenceTransformer": 0, "YOLO": 0, "vision_learner": 1}
_NO_MODEL = re.compile(r"Tokenizer|Processor|FeatureExtractor|Config|Scheduler|Args|Weights")


def network(surveys: Sequence[Survey], values: Values) -> dict[str, Any]:
    """`constructors`, `layers` and `parameters` (None where not all of them are known), as the hints have them."""
    tally = Tally(surveys, values)
    names: list[str | None] = []
    all_own = True
    for call in _reached(surveys, values):
        name = _ready_made(call, values)
        if name is not None:
            all_own = False
        elif (own := _own_model(call, tally, values)) is not None:
            name = own.last
            tally.add(own)
        names.append(name)
    if not tally.layers:
        tally.add_all()
    layers = {name: min(count, _MOST_COUNTED) for name, count in tally.layers.most_common(_MOST_LAYERS) if word(name)}
    return {
        "constructors": list(dict.fromkeys(name for name in names if word(name)))[:_MOST_CONSTRUCTORS],
        "layers": layers,
        "parameters": tally.parameters if all_own and layers and (tally.parameters or 0) <= _MOST_PARAMETERS else None,
    }


def _reached(surveys: Sequence[Survey], values: Values) -> Iterator[Call]:
    """The calls that no condition and no choice of this command is known to pass over."""
    calls = [call for one in surveys for call in one.calls]
    unchosen = _passed_over(calls, values) & {name for one in surveys for name in one.parameters}
    return (call for call in calls if not unchosen.intersection(call.scopes) and values.holds(call.guards))


def _passed_over(calls: Sequence[Call], values: Values) -> set[str]:
    """What the script names to choose from, by a condition or in a dictionary, and this command does not choose."""
    chosen: set[str] = set()
    offered: set[str] = set()
    for call in calls:
        (chosen if values.holds(call.guards) else offered).add(call.last)
        picked = values.node(call.node.func)
        if isinstance(call.node.func, ast.Subscript) and isinstance(picked, ast.Name):
            chosen.add(picked.id)
            offered |= {getattr(one, "id", "") for one in getattr(values.node(call.node.func.value), "values", ())}
    return offered - chosen


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
    return _chosen_by_name(node, values)


def _chosen_by_name(node: ast.Call, values: Values) -> str | None:
    """`models.__dict__[args.arch]()` and `getattr(models, args.arch)()`."""
    made_by = node.func
    if (
        isinstance(made_by, ast.Subscript)
        and isinstance(made_by.value, ast.Attribute)
        and made_by.value.attr == "__dict__"
    ):
        return _text(values.of(made_by.slice))
    if isinstance(made_by, ast.Call) and getattr(made_by.func, "id", "") == "getattr" and len(made_by.args) > 1:
        return _text(values.of(made_by.args[1]))
    return None


def _with_value(maker: str, value: Any) -> str:
    name = _text(value)
    if name is None:
        return maker
    # Of a local folder only the last part: where somebody keeps things is nobody's business.
    short = word(name.rstrip("/").rpartition("/")[2] if name.startswith(("/", ".", "~")) else name)
    return f"{maker}:{short}" if short else maker


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _own_model(call: Call, tally: Tally, values: Values) -> Call | None:
    """This call, if it makes a model of the script's own and does not stand inside another; by its real name."""
    if tally.scope_of(call) is not None:
        return None
    name = call.last
    if isinstance(call.node.func, ast.Subscript):
        chosen = values.node(call.node.func)
        name = chosen.id if isinstance(chosen, ast.Name) else ""
    if name not in tally.classes and name not in tally.builders:
        return None
    return Call(name, call.node, call.guards, call.loops, call.scopes)
