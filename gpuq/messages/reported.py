"""What hosts report, checked: every value is one that the record, the core and the screens can take.

A host signs what it sends, so it can only misreport itself; but a captured one, or one with a damaged memory, must not stop the
dispatcher, which serves all others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from gpuq.core.state.events import Exited, HostReported, Started
from gpuq.messages.submission import FEATURE, MAX_BYTES, MAX_MOMENT, NO_NUL

T = TypeVar("T")
_LONGEST_TEXT = 4096
_LARGEST = float(MAX_BYTES)

_ADDRESS = r"^[A-Za-z0-9.:_%-]{1,253}\Z"
_Name = Annotated[str, Meta(max_length=200, pattern=NO_NUL)]


class _Device(msgspec.Struct):
    id: _Name
    host: _Name
    type: _Name
    total_memory: Annotated[int, Meta(gt=0, le=MAX_BYTES)]
    features: Annotated[tuple[Annotated[str, Meta(pattern=rf"^{FEATURE}\Z")], ...], Meta(max_length=64)] = ()
    until_at: Annotated[float, Meta(ge=0, le=MAX_MOMENT)] | None = None
    cores: Annotated[tuple[Annotated[int, Meta(ge=0, le=2**20)], ...], Meta(max_length=4096)] = ()


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


class _NoStarts(msgspec.Struct):
    why: Annotated[str, Meta(max_length=1000, pattern=NO_NUL)]
    since_at: Annotated[float, Meta(ge=0, le=MAX_MOMENT)]
    again_at: Annotated[float, Meta(ge=0, le=MAX_MOMENT)] | None = None


class _HostReported(msgspec.Struct):
    boot_id: _Name
    residents: tuple[_Resident, ...]
    devices: Annotated[tuple[_Device, ...], Meta(max_length=1024)]
    instance: _Name | None = None
    address: Annotated[str, Meta(pattern=_ADDRESS)] | None = None
    no_starts: _NoStarts | None = None


class _Exited(msgspec.Struct):
    exit_code: Annotated[int, Meta(ge=0, le=255)] | None


def report(body: Any) -> HostReported:
    """The report in a message's body. Raises ValueError."""
    _check(body, _HostReported)
    return _converted(body, HostReported)


def event(name: str, body: Any) -> Started | Exited:
    """The worker event of this name and body. Raises ValueError.

    Nothing but its end ends an attempt, so an end counts also where its time or what was measured cannot be right: the time is
    brought into its range, and the rest left out.
    """
    match name:
        case "Started":
            _bound(body)
            started = _converted(body, Started)
            return replace(started, at=_moment(started.at))
        case "Exited":
            try:
                exited = _exited(body)
            except ValueError:
                exited = _exited({**body, "measurement": {}, "memory_cause": None, "reason": ""})
            return replace(exited, at=_moment(exited.at))
    raise ValueError(f"a host sends no {name[:60]}")


def _exited(body: Any) -> Exited:
    _check(body, _Exited)
    return _converted(body, Exited)


def _moment(at: float) -> float:
    return min(max(at, 0.0), float(MAX_MOMENT))


def _check(body: Any, shape: type[Any]) -> None:
    _converted(body, shape)
    _bound(body)


def _converted(body: Any, shape: type[T]) -> T:
    # Strict: a text such as "NaN" is no number.
    try:
        return msgspec.convert(body, shape)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error


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
