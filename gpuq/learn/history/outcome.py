"""One finished attempt as a row for history, training and scoring.

`outcome_from_rows` makes it from an ended attempt and its job as the record has them. Values that cannot be right become
None, and rows without any use become None as a whole, so that a damaged row teaches nothing. Features are those stored at
launch, not recomputed: a forecast must be judged by what was known then.
"""

# ruff: noqa: D102 - the properties below are the fields of rows that row_types.py describes.
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

from gpuq.core.measuring.measurement import HELD_BACK_LIMIT
from gpuq.core.measuring.slowdown import Basis
from gpuq.core.state.attempt import Ending
from gpuq.core.state.events import ResidentNumbers
from gpuq.core.state.forecast import Forecast
from gpuq.learn.history.job_features import JobFeatures
from gpuq.messages.codec import decoded
from gpuq.messages.job_record import JobRecord
from gpuq.messages.outcome import AttemptOutcome

# No job needs less than a process's own pages and no device has more than 64 TiB: values beyond are errors of the reader.
_LEAST_MEMORY_BYTES = 2**20
_MOST_MEMORY_BYTES = 2**46
# What opening a GPU takes, in the middle of what is measured (learn/memory/footprint.py): a run that used none of its GPU counts
# as one that opened it and did no more, so that a later one which opens it still fits, and bounds have a size to scale.
_CONTEXT_BYTES = 600 * 2**20
# Measured pairs lie between 0.96 and about 10; a job twice as fast together as alone was measured wrongly.
_LEAST_SLOWDOWN = 0.5
_MOST_SLOWDOWN = 100.0
# The meter is read once a second: what it misses at both ends of an attempt is then less than a tenth.
_LEAST_METERED_S = 20.0
# So long must the memory of a running job have been level to count (`learning.level_after_s`). One that was ended sooner may have
# come to no validation, and its next attempt is not ended there.
_LEAST_ENDED_S = 600.0

Slowdowns = tuple[tuple[str, float, float | None, float | None], ...]


@dataclass(frozen=True)
class Outcome:
    """One finished attempt. Percent, bytes, seconds, steps per second; a slowdown is time together / time alone.

    `whole`: the peaks are those of the whole job, since it completed, or made measured progress for ten minutes or until its time
    limit. Otherwise they are lower bounds. `slowdowns` holds (partner's kind, value, low, high). `sharing` is "mps",
    "time-slicing" or None for unknown.
    """

    kind: str
    signature: str
    script_sha256: str | None
    device_type: str
    features: Mapping[str, Any]
    peak_utilization_pct: float | None
    peak_memory_bytes: int | None
    duration_s: float | None
    alone_rate: float | None
    shared_rate: float | None
    slowdowns: Slowdowns
    ending: str
    shared: bool
    ended_at: float
    whole: bool = True
    partner_kinds: tuple[str, ...] = field(default=())
    attempt: tuple[int, int] | None = None
    owner: str | None = None
    max_slowdown: float | None = None
    """Its own slowdown budget; None where it came without one."""
    forecast: Forecast | None = None
    """The forecast stored at launch; None where there was none."""
    sharing: str | None = None
    memory_cause: str | None = None
    """Whose use left the device without memory (a `MemoryCause`); None where that is not known."""
    power_w: float | None = None
    """The mean power of each of its devices, in watts; None for an attempt that shared, whose part of it is only an estimate."""
    first_step_s: float | None = None
    """From its start to its first step; None where no step was counted."""
    utilization_at_most: float | None = None
    """What it needs of its device at most, in percent, where foreign load kept its peak from being measured."""
    disturbed: bool = False
    """Whether foreign load can have taken a considerable part of its time, so that it ran longer than it would by itself."""

    @cached_property
    def known(self) -> JobFeatures:
        """What forecasts use of `features`."""
        return JobFeatures.of(self.features)

    @property
    def outgrew_device(self) -> bool:
        """Whether its device had no memory left for it. On CPU cores that is the host's memory; on a GPU it is not."""
        on_cores = self.device_type.startswith("cpu-")
        return self.ending == Ending.OUT_OF_MEMORY or (on_cores and self.ending == Ending.HOST_OUT_OF_MEMORY)


@dataclass(frozen=True, slots=True)
class OngoingAttempt:
    """An attempt that runs, and its peaks so far, in percent and bytes. `level`: its memory has levelled off.
    `utilization_at_most` is as in `Outcome`."""

    attempt: tuple[int, int]
    kind: str
    device_type: str
    known: JobFeatures
    peak_utilization_pct: float | None
    utilization_at_most: float | None
    peak_memory_bytes: int | None
    level: bool
    shared: bool

    @classmethod
    def of(
        cls,
        attempt: tuple[int, int],
        kind: str,
        features: Mapping[str, Any],
        device_type: str,
        numbers: ResidentNumbers,
        *,
        shared: bool,
    ) -> OngoingAttempt:
        """From what its host reports; values that cannot be right count as unknown."""
        utilization = _percent(numbers.peak_utilization_pct)
        return cls(
            attempt=attempt,
            kind=kind,
            device_type=device_type,
            known=JobFeatures.of(features),
            peak_utilization_pct=None if numbers.utilization_is_bound else utilization,
            utilization_at_most=utilization if numbers.utilization_is_bound else None,
            peak_memory_bytes=_bytes(numbers.peak_memory_bytes),
            level=numbers.level_s is not None,
            shared=shared,
        )


class JobSide(Protocol):
    """What is needed of a job's row; `adapters.store.row_types.JobRow` has it."""

    @property
    def record(self) -> JobRecord: ...


class AttemptSide(Protocol):
    """What is needed of an attempt's row; `adapters.store.row_types.AttemptRow` has it."""

    @property
    def job(self) -> int: ...
    @property
    def number(self) -> int: ...
    @property
    def devices(self) -> tuple[str, ...]: ...
    @property
    def launch(self) -> dict[str, Any]: ...
    @property
    def features(self) -> dict[str, Any]: ...
    @property
    def started_at(self) -> float | None: ...
    @property
    def ended_at(self) -> float | None: ...
    @property
    def ending(self) -> str | None: ...
    @property
    def exit_code(self) -> int | None: ...
    @property
    def actual(self) -> AttemptOutcome | None: ...
    @property
    def measurement(self) -> dict[str, Any] | None: ...


def outcome_from_rows(job: JobSide, attempt: AttemptSide, device_types: Mapping[str, str]) -> Outcome | None:
    """The outcome of an ended attempt. None if it never ran, its device's type is unknown, or its row cannot be right.

    `device_types` (device id -> type) is used only where the row does not name the type itself.
    """
    actual, started, ended = attempt.actual, attempt.started_at, attempt.ended_at
    if actual is None or ended is None or attempt.ending is None or not math.isfinite(ended):
        return None
    device_type = actual.device_type or device_types.get(attempt.devices[0] if attempt.devices else "")
    if not isinstance(device_type, str):
        return None
    completed = attempt.ending == Ending.EXITED and attempt.exit_code == 0
    lasted = None if started is None else _positive(ended - started)
    asked = job.record.submission
    # A later attempt of a job that may start again may go on from what an earlier one saved, and one with more devices than it
    # needs is faster: neither takes as long as the job takes from its beginning.
    starts_again = asked.preemptible or bool(asked.retry) or asked.requeue_on_node_fail
    from_beginning = not (starts_again and attempt.number > 1) and len(attempt.devices) <= asked.gpus
    alone_rate, shared_rate = _positive(actual.alone_rate), _positive(actual.shared_rate)
    progressed = any(rate is not None for rate in (alone_rate, shared_rate, _positive(actual.disturbed_rate)))
    utilization = _percent(actual.peak_utilization_pct)
    utilization_is_bound = bool(actual.utilization_is_bound)
    disturbed = (_number(actual.held_back) or 0.0) > HELD_BACK_LIMIT
    kinds: object = actual.partner_kinds  # of a damaged row anything
    listed = kinds if isinstance(kinds, Sequence) and not isinstance(kinds, str) else ()
    # Each kind once, sorted: which of them came first is chance.
    partner_kinds = tuple(sorted({kind for kind in listed if isinstance(kind, str)}))
    shared = bool(actual.partners) or bool(partner_kinds)
    joules, first_step = _positive(actual.energy_joules), _positive((attempt.measurement or {}).get("first_step_at"))
    power_w, first_step_s = None, None
    if joules and lasted and lasted >= _LEAST_METERED_S and attempt.devices and not (shared or disturbed):
        power_w = joules / lasted / len(attempt.devices)
    if first_step and started is not None and started < first_step <= ended:
        first_step_s = first_step - started
    found = Outcome(
        kind=job.record.kind,
        signature=job.record.signature,
        script_sha256=_text(attempt.features.get("script_sha256")),
        device_type=device_type,
        features=attempt.features,
        peak_utilization_pct=None if utilization_is_bound else utilization,
        # A pool that a framework took in advance says nothing of what the job needs.
        peak_memory_bytes=None if actual.peak_memory_is_bound else _peak_bytes(actual),
        duration_s=lasted if completed and from_beginning else None,
        alone_rate=alone_rate,
        shared_rate=shared_rate,
        slowdowns=_slowdowns(actual, partner_kinds),
        ending=attempt.ending,
        shared=shared,
        ended_at=ended,
        partner_kinds=partner_kinds,
        attempt=(attempt.job, attempt.number),
        owner=job.record.owner,
        max_slowdown=asked.max_slowdown,
        forecast=_forecast(attempt.launch),
        sharing=_text(actual.sharing),
        memory_cause=_text(actual.memory_cause),
        power_w=power_w,
        first_step_s=first_step_s,
        utilization_at_most=utilization if utilization_is_bound else None,
        disturbed=disturbed,
    )
    lasting = attempt.ending == Ending.TIMED_OUT or (lasted is not None and lasted >= _LEAST_ENDED_S)
    return replace(found, whole=completed or (progressed and lasting and not found.outgrew_device))


def impossible(actual: AttemptOutcome) -> str | None:
    """The first measured value that cannot be right, by its name; None where all can. Unknown is not impossible."""
    believed = {
        "peak_memory_bytes": _peak_bytes(actual),
        "peak_utilization_pct": _percent(actual.peak_utilization_pct),
        "slowdown": _slowdown(actual.slowdown),
    }
    for name, value in believed.items():
        if value is None and getattr(actual, name) is not None:
            return name
    return None


def _forecast(launch: Mapping[str, Any]) -> Forecast | None:
    """The forecast that was stored with the launch; None if there is none or it cannot be read."""
    attempt = launch.get("attempt")
    stored = attempt.get("forecast") if isinstance(attempt, Mapping) else None
    try:
        return None if stored is None else decoded(stored, Forecast)
    except ValueError:
        return None


def _slowdowns(actual: AttemptOutcome, partner_kinds: tuple[str, ...]) -> Slowdowns:
    """The slowdown beside each kind that was the only partner for a while.

    Where that was not measured, the slowdown of the whole attempt, if only one kind shared the device: beside several kinds it
    cannot be attributed.
    """
    each = tuple(slowdown for row in actual.slowdowns for slowdown in _beside(row.kind, row.value, row.low, row.high))
    if each or len(partner_kinds) != 1 or actual.slowdown_basis == Basis.FOREIGN:
        return each
    return _beside(partner_kinds[0], actual.slowdown, actual.slowdown_low, actual.slowdown_high)


def _beside(kind: str, measured: object, low_end: object, high_end: object) -> Slowdowns:
    """(kind, value, low, high) if that can be right; an end of the interval on the wrong side is not known."""
    value = _slowdown(measured)
    if value is None:
        return ()
    low, high = _positive(low_end), _positive(high_end)
    return ((kind, value, low if low and low <= value else None, high if high and high >= value else None),)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def _positive(value: object) -> float | None:
    number = _number(value)
    return number if number is not None and number > 0 else None


def _percent(value: object) -> float | None:
    """Readings slightly over 100 are rounding; from 200 on they are errors."""
    number = _number(value)
    return min(number, 100.0) if number is not None and 0 <= number <= 200 else None


def _bytes(value: object) -> int | None:
    number = _number(value)
    return int(number) if number is not None and _LEAST_MEMORY_BYTES <= number <= _MOST_MEMORY_BYTES else None


def _peak_bytes(actual: AttemptOutcome) -> int | None:
    """The peak memory. Without any use of a device 0 is one; a program that used a device had some memory on it."""
    used_none = actual.peak_memory_bytes == actual.peak_utilization_pct == 0
    return _CONTEXT_BYTES if used_none else _bytes(actual.peak_memory_bytes)


def _slowdown(value: object) -> float | None:
    number = _number(value)
    return number if number is not None and _LEAST_SLOWDOWN <= number <= _MOST_SLOWDOWN else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
