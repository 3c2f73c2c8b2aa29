"""How options are written, and which of them change what a job needs.

Understands `--name value`, `--name=value`, `-n value`, `-n64`, `-name value` and `name=value`. The table of settings is
shared by the kind, the features and the reader of scripts.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from typing import Any

NUMBER = re.compile(r"^[+-]?(\d[\d_]*(\.\d*)?|\.\d+)([eE][+-]?\d+)?$")
PRECISION = re.compile(
    r"^(tf|fp|bf|float|bfloat|int|f|bf)?-?(4|8|16|32|64)([-_](mixed|true))?$|^mixed([-_](float16|bfloat16|fp16|bf16))?$"
    r"|^(o[0-3]|half|single|double|full|float|amp|apex|native|auto|true|false|on|off|yes|no|none|medium|high|highest)$",
    re.IGNORECASE,
)
_LONG = re.compile(r"^--?([A-Za-z][\w.-]*)(?:=(.*))?$", re.DOTALL)
_SHORT = re.compile(r"^-([A-Za-z])(\d[\d.]*)$")
_ASSIGNED = re.compile(r"^\+{0,2}~?([A-Za-z_][\w./@-]*)=(.*)$", re.DOTALL)

# `experiment=small` chooses a configuration of Hydra, where `--experiment small` only names the run.
_GROUPS = {"experiment": "experiment-config", "exp": "exp-config"}

SPELLINGS: dict[str, tuple[str, ...]] = {
    "batch": (
        *("batch-size", "bs", "b", "batch", "batchsize", "train-batch-size", "per-device-train-batch-size"),
        *("per-gpu-train-batch-size", "per-gpu-batch-size", "per-device-batch-size", "micro-batch-size", "train-bs"),
        "train-micro-batch-size-per-gpu",
    ),
    "image": (
        *("image-size", "img-size", "imgsz", "imgsize", "image-resolution", "resolution", "input-size", "crop-size"),
        *("img", "image-width", "size"),
    ),
    "sequence": (
        *("seq-len", "seq-length", "sequence-length", "max-length", "max-seq-length", "max-seq-len", "block-size"),
        *("seqlen", "context-length", "max-len", "n-ctx", "bptt"),
    ),
    "model": (
        *("model", "arch", "backbone", "model-name", "model-name-or-path", "network", "net", "architecture", "encoder"),
    ),
    "precision": ("precision", "dtype", "mixed-precision", "amp", "fp16", "bf16", "half", "tf32", "torch-dtype"),
    "optimizer": ("optimizer", "optim", "opt", "optimiser"),
    "epochs": ("epochs", "num-epochs", "n-epochs", "max-epochs", "num-train-epochs", "nepochs"),
}
"""Setting -> the names of options that give it; the first is the name in kinds and features."""

# `-a` is `--arch` and `-b` is `--batch-size` in the widely copied ImageNet example of PyTorch.
_SHORT_NAMES = {"a": "model", "b": "batch"}
SETTING_OF = {name: setting for setting, names in SPELLINGS.items() for name in names} | _SHORT_NAMES
SWITCHES = frozenset({"amp", "fp16", "bf16", "half", "tf32"})
"""Options that name a precision by their presence: they keep their own name."""


def pairs(words: Sequence[str], switches: Container[str] = ()) -> Iterator[tuple[str | None, str | None]]:
    """(name, value) of each argument: no name for a positional value, no value for a switch.

    An option takes the next word unless that is an option too, or it is known to be one of the `switches`.
    """
    i = 0
    while i < len(words):
        name, value = _split(words[i])
        i += 1
        if name is None and value == "--":
            continue
        if name is not None and value is None and i < len(words):
            following = words[i]
            # `--amp data/`: a switch, then a path.
            is_precision = SETTING_OF.get(canonical(name)) == "precision"
            is_switch = name in switches or (is_precision and not PRECISION.match(following))
            if _split(following)[0] is None and following != "--" and not is_switch:
                value = following
                i += 1
        yield name, value


def canonical(name: str) -> str:
    """Dashes for underscores, in lower case; of a dotted name, as in Hydra, the last part."""
    return name.rpartition(".")[2].replace("_", "-").strip("-").lower() if len(name) > 1 else name


def parsed(text: str) -> Any:
    """The value that a text on a command line stands for."""
    if NUMBER.match(text):
        number = float(text.replace("_", ""))
        return int(number) if number.is_integer() and "." not in text and "e" not in text.lower() else number
    return {"true": True, "false": False, "none": None, "null": None}.get(text.lower(), text)


def _split(word: str) -> tuple[str | None, str | None]:
    """(name, value): the name is None for a positional value, the value is None where it is not in this word."""
    if NUMBER.match(word):
        return None, word
    short = _SHORT.match(word)
    if short:
        return short[1], short[2]
    if found := _LONG.match(word):
        return found[1], found[2]
    if found := _ASSIGNED.match(word):
        return _GROUPS.get(found[1], found[1]), found[2]
    return None, word
