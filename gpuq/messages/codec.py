"""Events, actions and other frozen core types as plain JSON and back.

An item is written as `{"name": "Started", "body": {…}}`; names that are not in the table below are refused. msgspec checks every
type, so reading gives either a sound item or a clear error.
"""

from __future__ import annotations

from typing import Any, TypeVar, get_args

import msgspec

from gpuq.core.state.actions import Action, Revoke, SetPendingReason
from gpuq.core.state.events import Event

T = TypeVar("T")
# Names in the journal and in the stream of events that differ from the classes': clients and old journals use them.
_TAGS: dict[type[Event | Action], str] = {SetPendingReason: "Hold", Revoke: "Void"}
_CLASSES: dict[str, type[Event | Action]] = {
    _TAGS.get(cls, cls.__name__): cls for cls in (*get_args(Event), *get_args(Action))
}


def to_plain(item: Event | Action) -> tuple[str, Any]:
    """The item's name, and its body in JSON types."""
    return _TAGS.get(type(item), type(item).__name__), msgspec.to_builtins(item)


def from_plain(name: str, body: Any) -> Event | Action:
    """The item of that name and body. Raises ValueError with the place of the fault."""
    if name not in _CLASSES:
        raise ValueError(f"no event or action is called {name!r}")
    try:
        item: Event | Action = msgspec.convert(body, _CLASSES[name], strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(f"{name}: {error}") from error
    return item


def plain(value: Any) -> Any:
    """A value of any frozen core type in JSON types."""
    return msgspec.to_builtins(value)


def decoded(body: Any, cls: type[T]) -> T:
    """The value of class `cls` from JSON types. Raises ValueError with the place of the fault."""
    try:
        return msgspec.convert(body, cls, strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(f"{cls.__name__}: {error}") from error
