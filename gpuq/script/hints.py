"""What a script says of its job, in the form that goes with a submission.

Arrives: the script, the words after it, the folder. Leaves: `hints`, plain and bounded as `gpuq.submission.Hints` wants it,
or None where nothing is to be read. What the command itself says is not repeated but where only the script knows what it means.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from gpuq.script.configs import configured
from gpuq.script.layers import Tally
from gpuq.script.options import SETTING_OF, SPELLINGS, SWITCHES, canonical, pairs
from gpuq.script.source import trees
from gpuq.script.survey import Call, Survey, keyword, survey, text_of
from gpuq.script.values import UNKNOWN, Values

LONGEST_WORD = 100
MOST_CONSTRUCTORS = 16
MOST_LAYERS = 32
_MOST_COUNTED = 100_000

# The first that is imported names the framework: what stands above drives what stands below.
_FRAMEWORKS = (
    *(
        ("lightning", "lightning"),
        ("pytorch_lightning", "lightning"),
        ("fastai", "fastai"),
        ("ultralytics", "ultralytics"),
    ),
    *(("diffusers", "diffusers"), ("sentence_transformers", "transformers"), ("trl", "transformers")),
    *(("transformers", "transformers"), ("keras", "keras"), ("tensorflow.keras", "keras"), ("tf_keras", "keras")),
    *(("tensorflow", "tensorflow"), ("flax", "jax"), ("haiku", "jax"), ("equinox", "jax"), ("jax", "jax")),
    *(("torch", "pytorch"), ("timm", "pytorch"), ("torchvision", "pytorch"), ("mxnet", "mxnet"), ("paddle", "paddle")),
    *(
        ("xgboost", "xgboost"),
        ("lightgbm", "lightgbm"),
        ("cuml", "cuml"),
        ("cupy", "cupy"),
        ("sklearn", "scikit-learn"),
    ),
)
_MODEL_PACKAGES = (
    *("torchvision.models.", "keras.applications.", "tensorflow.keras.applications.", "segmentation_models_pytorch."),
    *(
        "monai.networks.nets.",
        "keras_hub.models.",
        "keras_cv.models.",
        "keras_nlp.models.",
        "torch_geometric.nn.models.",
    ),
)
# Functions that make the model their first text names.
_MODEL_MAKERS = {"create_model": 0, "get_model": 0, "SentenceTransformer": 0, "YOLO": 0, "vision_learner": 1}
_NO_MODEL = re.compile(r"Tokenizer|Processor|FeatureExtractor|Config|Scheduler|Args|Weights")
_OPTIMIZERS = frozenset(
    {
        *(
            "sgd",
            "adam",
            "adamw",
            "adamax",
            "nadam",
            "radam",
            "rmsprop",
            "adagrad",
            "adadelta",
            "adafactor",
            "lamb",
            "lars",
        ),
        *("lion", "ftrl", "lbfgs", "asgd", "rprop", "sparseadam", "fusedadam", "fusedlamb", "adam8bit", "adamw8bit"),
        *("deepspeedcpuadam", "shampoo", "sophia", "sophiag", "muon", "novograd", "adabelief", "prodigy"),
    }
)
# Names that stand for a setting also outside of options, where `size` or `b` could be anything.
_TOO_SHORT = frozenset(
    {
        "b",
        "a",
        "img",
        "size",
        "input-size",
        "resolution",
        "net",
        "network",
        "model",
        "encoder",
        "opt",
        "dtype",
        "torch-dtype",
    }
)
_HALF = {"float16": "fp16", "half": "fp16", "fp16": "fp16", "bfloat16": "bf16", "bf16": "bf16", "mixed-float16": "fp16"}
_WORD = re.compile(r"[\w.,:/@+ -]+")

Plain = dict[str, Any]


def hints(script: Path | None, words: Sequence[str], cwd: Path) -> Plain | None:
    """What `script`, called with `words` in `cwd`, says of its job. Never raises."""
    try:
        return _read(script, words, cwd)
    except Exception:  # noqa: BLE001 - a script may be anything, and a hint is never worth a submission
        return None


def _read(script: Path | None, words: Sequence[str], cwd: Path) -> Plain | None:
    surveys, in_files = _surveys(script, cwd) if script else (), configured(words, cwd)
    if not surveys and not in_files:
        return None
    arguments = {name: value for name, value in pairs(words) if name is not None}
    values = Values(surveys, arguments, in_files)
    found = _with_model(surveys, values)
    found["settings"] = _settings(surveys, values, arguments, in_files)
    return {name: value for name, value in found.items() if value} or None


@lru_cache(maxsize=16)
def _surveys(script: Path, cwd: Path) -> tuple[Survey, ...]:
    return tuple(survey(tree) for tree in trees(script, cwd))


def _with_model(surveys: Sequence[Survey], values: Values) -> Plain:
    tally = Tally(surveys, values)
    calls = [call for one in surveys for call in one.calls]
    unchosen = _passed_over(calls, values) & {name for one in surveys for name in one.parameters}
    names = []
    known = True
    for call in calls:
        if unchosen.intersection(call.scopes) or not values.holds(call.guards):
            continue
        ready_made = _ready_made(call, values)
        if ready_made is not None:
            names.append(ready_made)
            known = False
            continue
        own = _own_model(call, tally, values)
        if own is not None:
            names.append(own.last)
            tally.add(own)
    if not tally.layers:
        tally.add_all()
    layers = {
        name: min(count, _MOST_COUNTED) for name, count in tally.layers.most_common(MOST_LAYERS) if _is_word(name)
    }
    constructors = list(dict.fromkeys(name for name in names if _is_word(name)))
    return {
        "framework": _framework(surveys),
        "constructors": constructors[:MOST_CONSTRUCTORS],
        "layers": layers,
        "parameters": tally.parameters if known and layers else None,
    }


def _framework(surveys: Sequence[Survey]) -> str | None:
    """Of what the script itself imports; of its own modules where it imports nothing that is known."""
    for one in surveys:
        modules = {*one.modules, *(alias for alias in one.aliases.values() if "." in alias)}
        uses_keras = any(call.name.startswith("tensorflow.keras.") for call in one.calls)
        modules |= {"tensorflow.keras"} if uses_keras else set()
        for package, framework in _FRAMEWORKS:
            if any(module == package or module.startswith(f"{package}.") for module in modules):
                return framework
    return None


# --- the model ------------------------------------------------------------------------------------------------------


def _ready_made(call: Call, values: Values) -> str | None:
    """The name of a library's model that this call makes: `resnet50`, `AutoModel.from_pretrained:bert-base-uncased`."""
    node, last = call.node, call.last
    if _NO_MODEL.search(call.name):
        return None
    if last in {"from_pretrained", "from_config", "from_preset"} and "." in call.name:
        maker = ".".join(call.name.split(".")[-2:])
        return _with_value(maker, values.of(_argument(node, 0, "pretrained_model_name_or_path")))
    if call.name == "torch.hub.load":
        return _text(values.of(_argument(node, 1, "model")))
    if last in _MODEL_MAKERS:
        name = values.of(_argument(node, _MODEL_MAKERS[last], "model_name"))
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


def _with_value(maker: str, value: Any) -> str:
    name = _text(value)
    if name is None:
        return maker
    # Of a local folder only the last part: where somebody keeps things is nobody's business.
    short = name.rstrip("/").rpartition("/")[2] if name.startswith(("/", ".", "~")) else name
    return f"{maker}:{short}" if _is_word(short) else maker


# --- settings -------------------------------------------------------------------------------------------------------


def _settings(
    surveys: Sequence[Survey], values: Values, arguments: Mapping[str, str | None], in_files: Mapping[str, Any]
) -> Plain:
    """Setting -> its value and where it was read. What the command gives by a usual name is left to whoever reads that."""
    given = {SETTING_OF.get(canonical(name)) for name in arguments}
    found: Plain = {}
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
    """All that may be the setting's value, the likeliest first."""
    for key, configured_value in in_files.items():
        if SETTING_OF.get(key) == setting:
            yield _switched(key, configured_value), "config file"
    for one in surveys:
        for option in one.options:
            usual = next((name for name in option.names if SETTING_OF.get(canonical(name)) == setting), None)
            if usual is not None:
                value, origin = values.option(usual)
                yield _switched(canonical(usual), value), origin
        yield from _from_calls(setting, one, values)
        for raw, node, guards in one.named:
            name = canonical(raw)
            if SETTING_OF.get(name) == setting and name not in _TOO_SHORT and values.holds(guards):
                value, origin = values.traced(node)
                yield _switched(name, value), origin


def _from_calls(setting: str, one: Survey, values: Values) -> Iterator[tuple[Any, str]]:
    read = _READERS.get(setting)
    if read is None:
        return
    for call in one.calls:
        node = read(call)
        if node is not None and values.holds(call.guards):
            value, origin = (node, "script") if isinstance(node, str) else values.traced(node)
            yield value, origin


def _batch(call: Call) -> ast.expr | str | None:
    if call.last == "DataLoader":
        return _argument(call.node, 1, "batch_size")
    if call.last == "batch" and call.name != "batch" and len(call.node.args) == 1:
        return call.node.args[0]
    return None


def _image(call: Call) -> ast.expr | str | None:
    if call.last in {"Input", "InputLayer"}:
        return _argument(call.node, 0, "shape", "input_shape")
    if call.last in {"RandomResizedCrop", "CenterCrop", "RandomCrop", "Resize"}:
        return _argument(call.node, 0, "size")
    return keyword(call.node, "input_shape")


def _sequence(call: Call) -> ast.expr | str | None:
    return keyword(call.node, "input_length", "maxlen")


def _precision(call: Call) -> ast.expr | str | None:
    if call.last in {"half", "bfloat16"} and not call.node.args and "." in call.name:
        return _HALF[call.last]
    if (
        call.last in {"set_global_policy", "set_policy", "set_global_dtype_policy", "set_dtype_policy"}
        and call.node.args
    ):
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


def _optimizer(call: Call) -> ast.expr | str | None:
    if call.last == "compile":
        node = _argument(call.node, 0, "optimizer")
        return node if text_of(node) else None
    return call.last if call.last.lower() in _OPTIMIZERS and "." in call.name else None


_READERS: Mapping[str, Any] = {
    "batch": _batch,
    "image": _image,
    "sequence": _sequence,
    "precision": _precision,
    "optimizer": _optimizer,
}


def _switched(name: str, value: Any) -> Any:
    """A switch that is on stands for its own name: `fp16=True`."""
    if name in SWITCHES:
        return (
            name if value is True or (isinstance(value, str) and value.lower() in {"true", "on", "yes", "1"}) else None
        )
    return value


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
        text = str(value) if isinstance(value, int | str) else None
        return None if text is None else _HALF.get(text.lower().replace("_", "-"), text)[:LONGEST_WORD]
    text = _text(value)
    if text is None or not _is_word(text):
        return None
    return text.lower() if setting == "optimizer" else text


def _image_text(value: Any) -> str | None:
    """Height and width of a size, or of a shape with channels in it: 224, (224, 224), (224, 224, 3), (3, 224, 224)."""
    sides = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(side, int) and not isinstance(side, bool) and 0 < side < 10**5 for side in sides):
        return None
    if len(sides) == 3:
        sides = sides[:2] if sides[2] <= 4 else sides[1:] if sides[0] <= 4 else ()
    if len(sides) not in (1, 2) or (isinstance(value, tuple) and len(value) == 1):
        return None
    return str(sides[0]) if len(set(sides)) == 1 else "x".join(map(str, sides))


def _argument(node: ast.Call, place: int, *names: str) -> ast.expr | None:
    found = keyword(node, *names)
    return node.args[place] if found is None and place < len(node.args) else found


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _is_word(text: str) -> bool:
    return 0 < len(text) <= LONGEST_WORD and _WORD.fullmatch(text) is not None
