"""Reads TensorFlow's own trace, `*.xplane.pb`, without TensorFlow.

The input are the bytes of an XSpace (tsl/profiler/protobuf/xplane.proto in the TensorFlow sources), the result the spans of
its ops. Only the fields named below are read. Raises ValueError for bytes that are no such message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuq.learn.transfer.timeline import OpSpan

# Field numbers of the message types XSpace, XPlane, XLine, XEvent, XEventMetadata, XStat and XStatMetadata.
_SPACE_PLANES = 1
_PLANE_NAME, _PLANE_LINES, _PLANE_EVENT_NAMES, _PLANE_STAT_NAMES = 2, 3, 4, 5
_LINE_NAME, _LINE_AT_NS, _LINE_EVENTS = 2, 3, 4
_EVENT_NAME, _EVENT_OFFSET_PS, _EVENT_LENGTH_PS, _EVENT_STATS = 1, 2, 3, 4
_MAP_KEY, _MAP_VALUE = 1, 2
_NAMED, _NAMED_STATS = 2, 5
_STAT_NAME, _STAT_TEXT, _STAT_REFERENCE = 1, 5, 7
_FIXED = {1: 8, 5: 4}

Message = dict[int, list[int | bytes]]
# `path/of/the/node:Type`, as executors name the ops that they run.
_OP = re.compile(r"^[\w./\-<>\[\]]+:(_?[A-Z]\w*)$")
# Lines that repeat the streams, by module or step.
_DERIVED = ("Steps", "XLA Modules", "XLA Ops", "TensorFlow Ops", "TensorFlow Name Scope", "Source code", "Framework")


def op_type(name: str) -> str | None:
    """The type in `path/of/the/node:Type`; None for other names."""
    found = _OP.match(name.partition(";")[0].strip())
    return found[1] if found else None


def spans(raw: bytes) -> Iterator[OpSpan]:
    """Every run of every op."""
    for plane in _messages(_message(raw), _SPACE_PLANES):
        name = _text(plane, _PLANE_NAME)
        on_device = name.startswith("/device:")
        if not on_device and not name.startswith("/host:CPU"):
            continue
        stat_names = {key: _text(value, _NAMED) for key, value in _map(plane, _PLANE_STAT_NAMES)}
        events = dict(_map(plane, _PLANE_EVENT_NAMES))
        for number, line in enumerate(_messages(plane, _PLANE_LINES)):
            if on_device and _text(line, _LINE_NAME).startswith(_DERIVED):
                continue
            begins_us = _number(line, _LINE_AT_NS) / 1e3
            for event in _messages(line, _LINE_EVENTS):
                described = events.get(_number(event, _EVENT_NAME), {})
                op = _op_of(described, event, stat_names, on_device=on_device)
                if op is not None:
                    start = begins_us + _number(event, _EVENT_OFFSET_PS) / 1e6
                    yield OpSpan(op, on_device, number, start, _number(event, _EVENT_LENGTH_PS) / 1e6)


def _op_of(described: Message, event: Message, stat_names: dict[int, str], *, on_device: bool) -> str | None:
    """The op's type: on the host from the event's name; on a device, whose events are kernels, from its `tf_op`."""
    name = _text(described, _NAMED)
    if not on_device:
        return op_type(name)
    for stat in [*_messages(event, _EVENT_STATS), *_messages(described, _NAMED_STATS)]:
        if stat_names.get(_number(stat, _STAT_NAME)) == "tf_op":
            text = _text(stat, _STAT_TEXT) or stat_names.get(_number(stat, _STAT_REFERENCE), "")
            return op_type(text) or text or None
    return name or None


def _message(raw: bytes) -> Message:
    """Field number -> its values in order: whole numbers, or bytes."""
    found: Message = {}
    at = 0
    while at < len(raw):
        tag, at = _varint(raw, at)
        field, kind = tag >> 3, tag & 7
        value: int | bytes
        if kind == 0:
            value, at = _varint(raw, at)
        elif kind == 2:
            length, at = _varint(raw, at)
            value, at = raw[at : at + length], at + length
        elif kind in _FIXED:
            value, at = raw[at : at + _FIXED[kind]], at + _FIXED[kind]
        else:
            raise ValueError(f"a field of type {kind}")
        if at > len(raw) or field == 0:
            raise ValueError("it ends in the middle of a field")
        found.setdefault(field, []).append(value)
    return found


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(raw) and shift < 70:
        byte = raw[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("a number without an end")


def _messages(message: Message, field: int) -> Iterator[Message]:
    for value in message.get(field, ()):
        if not isinstance(value, bytes):
            raise ValueError(f"field {field} is a number where a message should be")
        yield _message(value)


def _map(message: Message, field: int) -> Iterator[tuple[int, Message]]:
    for entry in _messages(message, field):
        for value in _messages(entry, _MAP_VALUE):
            yield _number(entry, _MAP_KEY), value


def _number(message: Message, field: int) -> int:
    value = message.get(field, [0])[-1]
    return value if isinstance(value, int) else 0


def _text(message: Message, field: int) -> str:
    value = message.get(field, [b""])[-1]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""
