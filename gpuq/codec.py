"""Events, actions and other frozen nouns as plain JSON and back.

A noun goes as `{"name": "Started", "body": {…}}`; names not in the table below are refused. msgspec checks every type,
so what comes back is either a sound noun or a clear error.
"""

from __future__ import annotations

from typing import Any, TypeVar, get_args

import msgspec

from gpuq.core.state.actions import Action
from gpuq.core.state.events import Event

EVENTS: dict[str, type[Event]] = {cls.__name__: cls for cls in get_args(Event)}
ACTIONS: dict[str, type[Action]] = {cls.__name__: cls for cls in get_args(Action)}
T = TypeVar("T")
_KNOWN: dict[str, Any] = {**EVENTS, **ACTIONS}


def to_plain(item: Event | Action) -> tuple[str, Any]:
    """The noun's name, and its body in JSON types."""
    return type(item).__name__, msgspec.to_builtins(item)


def from_plain(name: str, body: Any) -> Event | Action:
    """The noun of that name and body. Raises ValueError with the place of the fault."""
    if name not in _KNOWN:
        raise ValueError(f"unknown noun {name!r}")
    try:
        item: Event | Action = msgspec.convert(body, _KNOWN[name], strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(f"{name}: {error}") from error
    return item


def plain(noun: Any) -> Any:
    """Any frozen noun in JSON types."""
    return msgspec.to_builtins(noun)


def noun(body: Any, cls: type[T]) -> T:
    """The noun of class `cls` from JSON types. Raises ValueError with the place of the fault."""
    try:
        return msgspec.convert(body, cls, strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(f"{cls.__name__}: {error}") from error
