"""A command's arguments as options and positional values, each with what may be shown of it.

Arrives: the words after the script. Leaves: one `Argument` per option or positional value. Values are masked, except
those that change what a job needs: batch, image and sequence size, model, precision. Understands `--name value`,
`--name=value`, `-n value`, `-n64`, `-name value` and `name=value`; one spelling stands for all.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MASK = "*"
_MODEL = re.compile(r"[\w./@+-]{1,80}")
# Nine digits: no batch or image is larger, and a seed or a time stamp is not taken for one.
_SIZE = re.compile(r"^\d{1,9}(\.\d{1,3})?([x,]\d{1,9}(\.\d{1,3})?){0,3}$")
_NUMBER = re.compile(r"^[+-]?(\d[\d_]*\.?\d*|\.\d+)([eE][+-]?\d+)?$")
_PRECISION = re.compile(
    r"^(tf|fp|bf|float|bfloat|int|f|bf)?-?(4|8|16|32|64)([-_](mixed|true))?$|^mixed([-_](float16|bfloat16|fp16|bf16))?$"
    r"|^(o[0-3]|half|single|double|full|float|amp|apex|native|auto|true|false|on|off|yes|no|none|medium|high|highest)$",
    re.IGNORECASE,
)
_LONG = re.compile(r"^--?([A-Za-z][\w.-]*)(?:=(.*))?$", re.DOTALL)
_SHORT = re.compile(r"^-([A-Za-z])(\d[\d.]*)$")
_ASSIGNED = re.compile(r"^\+{0,2}~?([A-Za-z_][\w./@-]*)=(.*)$", re.DOTALL)
_WORD = re.compile(r"^[A-Za-z][A-Za-z_-]{0,31}\d{0,3}[A-Za-z]?$")

_SPELLINGS: dict[str, tuple[str, ...]] = {
    "batch": (
        *("batch-size", "bs", "b", "batch", "batchsize", "train-batch-size", "per-device-train-batch-size"),
        *("per-gpu-train-batch-size", "per-gpu-batch-size", "per-device-batch-size", "micro-batch-size", "train-bs"),
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
        "model",
        "arch",
        "backbone",
        "model-name",
        "model-name-or-path",
        "network",
        "net",
        "architecture",
        "encoder",
    ),
    "precision": ("precision", "dtype", "mixed-precision", "amp", "fp16", "bf16", "half", "tf32", "torch-dtype"),
}
# `-a` is `--arch` and `-b` is `--batch-size` in the widely copied ImageNet example of PyTorch.
_SHORT_NAMES = {"a": "model", "b": "batch"}
_SIZE_OF = {name: size for size, names in _SPELLINGS.items() for name in names} | _SHORT_NAMES
_FIRST_SPELLING = {size: names[0] for size, names in _SPELLINGS.items()}
# Switches that name a precision by being there: they keep their own name.
_SWITCHES = frozenset({"amp", "fp16", "bf16", "half", "tf32"})


@dataclass(frozen=True)
class Argument:
    """One argument. `name` is None for a positional value; `shown` is None for a switch; `size` says what it sizes."""

    name: str | None
    shown: str | None
    size: str | None = None


def parse(words: Sequence[str]) -> Iterator[Argument]:
    """The arguments, in their order. An option takes the next word unless that is an option too."""
    i = 0
    while i < len(words):
        name, value = _split(words[i])
        i += 1
        if name is None and value == "--":
            continue
        if name is None:
            yield Argument(None, text_shape(value or ""))
            continue
        if value is None and i < len(words) and _takes(name, words[i]):
            value = words[i]
            i += 1
        yield _option(name, value)


def text_shape(value: str) -> str:
    """A positional value as the kind shows it: short words as they are, all else by its shape."""
    if _NUMBER.match(value):
        return "<number>"
    if _WORD.match(value):
        return value
    if "/" in value or value.startswith(("~", ".")) or re.search(r"\.\w{1,6}$", value):
        return "<path>"
    return "<text>"


def _split(word: str) -> tuple[str | None, str | None]:
    """(name, value): the name is None for a positional value, the value is None where it is not in this word."""
    if _NUMBER.match(word):
        return None, word
    short = _SHORT.match(word)
    if short:
        return short[1], short[2]
    found = _LONG.match(word) or _ASSIGNED.match(word)
    return (found[1], found[2]) if found else (None, word)


def _takes(name: str, following: str) -> bool:
    """Whether the word after an option without `=` is its value."""
    if _split(following)[0] is not None or following == "--":
        return False
    # `--amp data/`: a switch, then a path.
    return _SIZE_OF.get(_canonical(name)) != "precision" or _PRECISION.match(following) is not None


def _canonical(name: str) -> str:
    """Dashes for underscores; of a dotted name, as in Hydra, the last part decides what it is."""
    return name.rpartition(".")[2].replace("_", "-").strip("-").lower() if len(name) > 1 else name


def _option(name: str, value: str | None) -> Argument:
    plain = _canonical(name)
    size = _SIZE_OF.get(plain)
    shown = None if value is None or size is None else _kept(size, value)
    if size == "precision" and value is None:
        return Argument(plain, None) if plain not in _SWITCHES else Argument("precision", plain, size)
    if size is None or shown is None:
        return Argument(name.replace("_", "-"), None if value is None else MASK)
    if plain in _SWITCHES and shown.lower() in {"true", "1", "on", "yes"}:
        shown = plain
    return Argument(_FIRST_SPELLING[size], shown, size)


def _kept(size: str, value: str) -> str | None:
    """The value in the form the kind keeps; None if it is not of the kind's shape, and so is masked."""
    if size == "precision":
        return value.lower() if _PRECISION.match(value) else None
    if size == "model":
        local = value.startswith(("/", ".", "~"))
        name = posixpath.basename(value.rstrip("/")) if local else value
        return name if _MODEL.fullmatch(name) else None
    return value.lower() if _SIZE.match(value) else None
