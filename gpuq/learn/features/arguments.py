"""A command's arguments as options and positional values, each with what may be shown of it in a kind.

Values are masked, since a kind is shown to everybody and shall not change with every path or seed. Exceptions are the values
that change what a job needs: batch, image and sequence size, model, precision. Optimiser and epochs are masked in the kind
and kept as features. Different spellings of one option get the same name.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpuq.script.options import NUMBER, PRECISION, SETTING_OF, SPELLINGS, SWITCHES, canonical, pairs

MASK = "*"
_MODEL = re.compile(r"[\w./@+-]{1,80}")
_OPTIMIZER = re.compile(r"[A-Za-z][\w.-]{0,39}")
# Nine digits: no batch or image is larger, and a seed or a time stamp is not taken for one.
_SIZE = re.compile(r"^\d{1,9}(\.\d{1,3})?([x,]\d{1,9}(\.\d{1,3})?){0,3}$")
_WORD = re.compile(r"^[A-Za-z][A-Za-z_-]{0,31}\d{0,3}[A-Za-z]?$")
# These say little of peaks, and a run of more epochs is the same work again.
_NOT_IN_KIND = frozenset({"optimizer", "epochs"})


@dataclass(frozen=True)
class Argument:
    """One argument. `name` is None for a positional value; `shown` is None for a switch.

    `setting` and `value` say what it sets and to what; None where it sets nothing that forecasts use.
    """

    name: str | None
    shown: str | None
    setting: str | None = None
    value: str | None = None


def parse(words: Sequence[str]) -> Iterator[Argument]:
    """The arguments in their order."""
    for name, value in pairs(words):
        yield Argument(None, text_shape(value or "")) if name is None else _option(name, value)


def text_shape(value: str) -> str:
    """A positional value as the kind shows it: short words as they are, all else by its shape."""
    if NUMBER.match(value):
        return "<number>"
    if _WORD.match(value):
        return value
    if "/" in value or value.startswith(("~", ".")) or re.search(r"\.\w{1,6}$", value):
        return "<path>"
    return "<text>"


def kept(setting: str, value: str) -> str | None:
    """The value of a setting in the form that is stored; None if it does not look like a value of that setting."""
    if setting == "precision":
        return value.lower() if PRECISION.match(value) else None
    if setting == "optimizer":
        return value.lower() if _OPTIMIZER.fullmatch(value) else None
    if setting == "model":
        local = value.startswith(("/", ".", "~"))
        name = posixpath.basename(value.rstrip("/")) if local else value
        return name if _MODEL.fullmatch(name) else None
    return value.lower() if _SIZE.match(value) else None


def _option(name: str, value: str | None) -> Argument:
    plain = canonical(name)
    setting = SETTING_OF.get(plain)
    found = None if value is None or setting is None else kept(setting, value)
    if setting == "precision" and value is None:
        return Argument("precision", plain, setting, plain) if plain in SWITCHES else Argument(plain, None)
    if setting is None or found is None:
        return Argument(name.replace("_", "-"), None if value is None else MASK)
    if setting in _NOT_IN_KIND:
        return Argument(name.replace("_", "-"), MASK, setting, found)
    if plain in SWITCHES and found in {"true", "1", "on", "yes"}:
        found = plain
    return Argument(SPELLINGS[setting][0], found, setting, found)
