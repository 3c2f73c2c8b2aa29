"""Settings that only the script or its configuration files give: batch, image and sequence size, precision, optimiser, ...

Setting -> its value as text and where it was read, for settings that the command itself does not give by a usual name. (The
settings of gpuq itself are in `gpuq.settings`.)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpuq.script.configs import NOT_TRAINING
from gpuq.script.expressions import argument, keyword, text_of, word
from gpuq.script.operations import UNKNOWN
from gpuq.script.options import SETTING_OF, SPELLINGS, SWITCHES, canonical
from gpuq.script.survey import Call, Survey
from gpuq.script.values import Values

OPTIMIZERS = frozenset(
    {
        *("sgd", "adam", "adamw", "adamax", "nadam", "radam", "rmsprop", "adagrad", "adadelta", "adafactor", "lamb"),
        *("lars", "lion", "ftrl", "lbfgs", "asgd", "rprop", "sparseadam", "fusedadam", "fusedlamb", "adam8bit"),
        *("adamw8bit", "deepspeedcpuadam", "shampoo", "sophia", "sophiag", "muon", "novograd", "adabelief", "prodigy"),
    }
)
# Names that mean a setting only as an option: elsewhere in a script `size` or `b` could be anything.
_TOO_SHORT = frozenset(
    {
        *("b", "a", "img", "size", "input-size", "resolution", "net", "network", "model", "encoder", "opt", "dtype"),
        "torch-dtype",
    }
)
_POLICIES = frozenset({"set_global_policy", "set_policy", "set_global_dtype_policy", "set_dtype_policy"})
_HALF = {"float16": "fp16", "half": "fp16", "fp16": "fp16", "bfloat16": "bf16", "bf16": "bf16", "mixed-float16": "fp16"}


def settings(
    surveys: Sequence[Survey], values: Values, arguments: Mapping[str, str | None], in_files: Mapping[str, Any]
) -> dict[str, Any]:
    """Setting -> value and origin. Settings that the command gives by a usual name are left out."""
    given = {SETTING_OF.get(canonical(name)) for name in arguments}
    found: dict[str, Any] = {}
    for setting in SPELLINGS:
        if setting in given:
            continue
        for value, origin in _candidates(setting, surveys, values, in_files):
            shown = _shown(setting, value)
            if shown is not None:
                found[setting] = {"value": shown, "origin": origin}
                break
    return found


def _candidates(
    setting: str, surveys: Sequence[Survey], values: Values, in_files: Mapping[str, Any]
) -> Iterator[tuple[Any, str]]:
    """All possible values of the setting, the likeliest first."""
    for key, configured_value in in_files.items():
        if SETTING_OF.get(key) == setting:
            yield _switched(key, configured_value), "config file"
    for one in surveys:
        for option in one.options:
            usual = next((name for name in option.names if SETTING_OF.get(canonical(name)) == setting), None)
            if usual is not None:
                value, origin = values.option(usual)
                yield _switched(canonical(usual), value), origin
        names = {id(node): name for name, node, _ in one.named}
        for call in sorted(one.calls, key=lambda call: _is_of_validation(call, names.get(id(call.node), ""))):
            node = _in_call(setting, call)
            if node is not None and values.holds(call.guards):
                yield (node, "script") if isinstance(node, str) else values.traced(node)
        for raw, node, guards in one.named:
            name = canonical(raw)
            if SETTING_OF.get(name) == setting and name not in _TOO_SHORT and values.holds(guards):
                value, origin = values.traced(node)
                yield _switched(name, value), origin


def _is_of_validation(call: Call, assigned: str) -> bool:
    """Whether a call makes a loader for validation: of `val_set`, in `val_dataloader`, or as `val_loader`."""
    if call.last != "DataLoader":
        return False
    parts = (part for one in call.node.args for part in ast.walk(one))
    names = (getattr(part, "id", getattr(part, "attr", getattr(part, "value", ""))) for part in parts)
    return any(NOT_TRAINING.search(str(name)) for name in (assigned, *names, *call.scopes))


def _in_call(setting: str, call: Call) -> ast.expr | str | None:
    """What a call says of the setting: an expression, or the value itself; None where it says nothing."""
    node, last = call.node, call.last
    match setting:
        case "batch" if last == "DataLoader":
            return argument(node, 1, "batch_size")
        # Of Keras: `fit(x, y, 32, 10)`.
        case "batch" if last == "fit" and len(node.args) > 2:
            return node.args[2]
        case "epochs" if last == "fit" and len(node.args) > 3:
            return node.args[3]
        case "batch" if last == "batch" and call.name != "batch" and len(node.args) == 1:
            return node.args[0]
        case "image" if last in {"Input", "InputLayer"}:
            return argument(node, 0, "shape", "input_shape")
        case "image" if last in {"RandomResizedCrop", "CenterCrop", "RandomCrop", "Resize"}:
            return argument(node, 0, "size")
        case "image":
            return keyword(node, "input_shape")
        case "sequence":
            return keyword(node, "input_length", "maxlen")
        case "precision":
            return _precision(call)
        case "optimizer" if last == "compile":
            named = argument(node, 0, "optimizer")
            return named if text_of(named) else None
        case "optimizer" if last.lower() in OPTIMIZERS and "." in call.name:
            return last
    return None


def _precision(call: Call) -> ast.expr | str | None:
    if call.last in {"half", "bfloat16"} and not call.node.args and "." in call.name:
        return _HALF[call.last]
    if call.last in _POLICIES and call.node.args:
        return call.node.args[0]
    if call.last == "autocast":
        enabled = keyword(call.node, "enabled")
        kind = keyword(call.node, "dtype")
        return ast.IfExp(enabled, kind or ast.Constant("fp16"), ast.Constant(None)) if enabled else kind or "fp16"
    if call.name.startswith(("numpy.", "np.")):
        return None
    kind = keyword(call.node, "torch_dtype", "dtype", "param_dtype", "compute_dtype", "bnb_4bit_compute_dtype")
    # Only what is unusual: of the many tensors of a script, most say float32 or an integer.
    return _HALF.get(getattr(kind, "attr", None) or text_of(kind) or "")


def _switched(name: str, value: Any) -> Any:
    """A switch that is on stands for its own name: `fp16=True`."""
    if name not in SWITCHES:
        return value
    on = value is True or (isinstance(value, str) and value.lower() in {"true", "on", "yes", "1"})
    return name if on else None


def _shown(setting: str, value: Any) -> str | None:
    """The value as text; None for what this setting cannot be."""
    if value is UNKNOWN or value is None or isinstance(value, bool):
        return None
    if setting == "image":
        return _image_text(value)
    if setting in {"batch", "sequence", "epochs"}:
        whole = isinstance(value, int | float) and float(value).is_integer() and 0 < value < 10**9
        return str(int(value)) if whole else None
    if setting == "precision":
        text = word(str(value) if isinstance(value, int) else value)
        return text and _HALF.get(text.lower().replace("_", "-"), text)
    text = word(value)
    return text.lower() if text and setting == "optimizer" else text


def _image_text(value: Any) -> str | None:
    """Height and width of a size, or of a shape with channels: 224, (224, 224), (224, 224, 3), (3, 224, 224)."""
    sides = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(side, int) and not isinstance(side, bool) and 0 < side < 10**5 for side in sides):
        return None
    if len(sides) == 3:
        sides = sides[:2] if sides[2] <= 4 else sides[1:] if sides[0] <= 4 else ()
    if len(sides) not in (1, 2) or (isinstance(value, tuple) and len(value) == 1):
        return None
    return str(sides[0]) if len(set(sides)) == 1 else "x".join(map(str, sides))
