"""What was measured of a finished attempt: `actual` in the record, in the API and in `gpuq show`, beside the forecast.

The dispatcher computes it when an attempt ends (`gpuq.daemon.outcome`), the record stores it as JSON, the API shows it and
learning reads it. Nothing in it is predicted; what was not measured is None.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from gpuq.core.measuring.slowdown import Basis, Slowdown
from gpuq.core.state.attempt import MemoryCause


class PairSlowdown(msgspec.Struct, frozen=True, kw_only=True):
    """What one partner's kind cost the attempt while it was the only partner: time together / time alone, 95% interval."""

    kind: str
    value: float
    low: float | None = None
    high: float | None = None
    basis: Basis | None = None


class AttemptOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What really happened; null for what was not measured. Percent, bytes, joules, steps per second.

    The slowdown (time together / time alone, with its 95% interval) is measured by blinks where there were two, else within the
    attempt where it had time alone and time with a partner, else against its kind's alone rate on the same type of device, else
    it is unknown. `slowdowns` has one entry per partner that was there by itself for a while. `partners` are the jobs that
    shared a device with it at some time; `sharing` is how, null for an attempt that never had a partner. `not_counted` says why
    no steps were counted. `peak_memory_is_bound`: a framework took memory in advance, so `peak_memory_bytes` is only what the
    job needs at most.
    """

    peak_utilization_pct: float | None = None
    peak_memory_bytes: int | None = None
    steps: int | None = None
    not_counted: str | None = None
    alone_rate: float | None = None
    shared_rate: float | None = None
    disturbed_rate: Annotated[
        float | None,
        Meta(description="Steps/s where foreign load was too high for `alone_rate` and `shared_rate` to count."),
    ] = None
    slowdown: float | None = None
    slowdown_low: float | None = None
    slowdown_high: float | None = None
    slowdown_basis: Basis | None = None
    slowdown_otherwise: Annotated[
        tuple[Slowdown, ...],
        Meta(description="What the other bases say, each with `basis`, `value`, `low` and `high`."),
    ] = ()
    blink: Annotated[
        str | None,
        Meta(description="How often a partner was paused to measure this attempt, or why none was."),
    ] = None
    partners: tuple[int, ...] = ()
    partner_kinds: tuple[str, ...] = ()
    slowdowns: tuple[PairSlowdown, ...] = ()
    device_type: str | None = None
    sharing: str | None = None
    energy_joules: float | None = None
    memory_cause: MemoryCause | None = None
    idle_joules: float | None = None
    peak_memory_is_bound: bool | None = None
    foreign_load: Annotated[
        float | None,
        Meta(description="Mean load of processes that gpuq did not start: in cores, on a GPU as a share of it."),
    ] = None
    held_back: Annotated[
        float | None,
        Meta(description="The part of the attempt's time that foreign load took from it at most, from 0 to 1."),
    ] = None
    utilization_is_bound: Annotated[
        bool | None,
        Meta(description="Foreign load was so high that `peak_utilization_pct` is only what the job needs at most."),
    ] = None
    step_processes: Annotated[
        int | None,
        Meta(description="How many processes counted steps at the same time; `steps` is the most of any of them."),
    ] = None


UNMEASURED = AttemptOutcome()

T = TypeVar("T")
_decoder = msgspec.json.Decoder(AttemptOutcome)


def outcome_from_json(text: str | bytes) -> AttemptOutcome | None:
    """The outcome that the record holds as `text`; None where that is JSON but not an object. Raises msgspec.DecodeError for
    text that is not JSON.

    A damaged row still has sound values beside the damaged ones. They are taken over unchecked, so that the row can be shown;
    learning checks each value by itself before it uses it (`gpuq.learn.history.outcome`).
    """
    try:
        return _decoder.decode(text)
    except msgspec.ValidationError:
        plain: Any = msgspec.json.decode(text)
    if not isinstance(plain, dict):
        return None
    values = {name: plain[name] for name in AttemptOutcome.__struct_fields__ if name in plain}
    for name, cls in (("slowdowns", PairSlowdown), ("slowdown_otherwise", Slowdown)):
        values[name] = _sound(values.get(name), cls)
    return AttemptOutcome(**values)


def _sound(rows: object, cls: type[T]) -> tuple[T, ...]:
    """Those of `rows` that are a `cls`; nothing where `rows` is no list."""
    found = []
    for row in rows if isinstance(rows, list) else ():
        with suppress(msgspec.ValidationError):
            found.append(msgspec.convert(row, cls))
    return tuple(found)
