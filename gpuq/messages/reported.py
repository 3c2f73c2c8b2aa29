"""What hosts report, checked: every value is one that the record, the core and the screens can take.

A host signs what it sends, so it can only misreport itself; but a captured one, or one with a damaged memory, must not stop the
dispatcher, which serves all others.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from gpuq.core.state.events import Exited, HostReported, Started
from gpuq.messages.codec import from_plain, noun
from gpuq.messages.submission import MAX_BYTES, MAX_MOMENT, NO_NUL

_LONGEST_TEXT = 4096
_LARGEST = float(MAX_BYTES)

_Moment = Annotated[float, Meta(ge=0, le=MAX_MOMENT)]
_Name = Annotated[str, Meta(max_length=200, pattern=NO_NUL)]


class _Device(msgspec.Struct):
    id: _Name
    host: _Name
    type: _Name
    total_memory: Annotated[int, Meta(gt=0, le=MAX_BYTES)]


class _Rate(msgspec.Struct):
    mean: Annotated[float, Meta(ge=1e-9)]
    count: Annotated[int, Meta(ge=1)]
    variance: Annotated[float, Meta(ge=0)] | None


class _Rates(msgspec.Struct):
    alone: _Rate | None
    shared: _Rate | None
    blinked: _Rate | None = None


class _Resident(msgspec.Struct):
    rates: _Rates | None = None


class _HostReported(msgspec.Struct):
    boot_id: _Name
    residents: tuple[_Resident, ...]
    at: _Moment
    devices: Annotated[tuple[_Device, ...], Meta(max_length=1024)]
    instance: _Name | None = None


class _Started(msgspec.Struct):
    at: _Moment


class _Exited(msgspec.Struct):
    at: _Moment
    exit_code: Annotated[int, Meta(ge=0, le=255)] | None


def report(body: Any) -> HostReported:
    """The report in a message's body. Raises ValueError."""
    _check(body, _HostReported)
    return noun(body, HostReported)


def event(name: str, body: Any) -> Started | Exited:
    """The worker event of this name and body. An end counts also if what was measured does not: it is left out then. Raises
    ValueError."""
    if name not in {"Started", "Exited"}:
        raise ValueError(f"a host sends no {name[:60]}")
    try:
        return _event(name, body)
    except ValueError:
        if name == "Started":
            raise
        return _event(name, {**body, "measurement": {}, "memory_cause": None, "reason": ""})


def _event(name: str, body: Any) -> Started | Exited:
    _check(body, _Started if name == "Started" else _Exited)
    found = from_plain(name, body)
    assert isinstance(found, Started | Exited)
    return found


def _check(body: Any, shape: type[Any]) -> None:
    try:
        msgspec.convert(body, shape, strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error
    _bound(body)


def _bound(value: Any) -> None:
    """Raises ValueError for a number or a text in it that is too large for the record. No legitimate one comes near."""
    if isinstance(value, dict):
        for key, child in value.items():
            _bound(key)
            _bound(child)
    elif isinstance(value, list | tuple):
        for child in value:
            _bound(child)
    elif isinstance(value, int | float) and not abs(value) <= _LARGEST:
        raise ValueError("a number is too large")
    elif isinstance(value, str) and (len(value) > _LONGEST_TEXT or "\0" in value):
        raise ValueError("a text is too long, or has a NUL")
