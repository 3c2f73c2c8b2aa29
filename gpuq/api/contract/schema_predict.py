"""The answers of the API about jobs that were not submitted (`predict`) and sharing that was not done (shadow mode).

As in `schema.py`, keys name their unit, and what is unknown is null.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gpuq.api.contract.schema_jobs import ExpectedStart, ForecastView, VerdictView


class NearKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind that resembles the one asked about. `likeness` is the similarity, from 0 to 1."""

    kind: str
    likeness: float


class EvidenceView(msgspec.Struct, frozen=True, kw_only=True):
    """What a forecast rests on, and how reliable it is.

    `bounds_meant_to_hold` is the share of jobs that the bounds are made for; `bounds_held` is how many kept to the memory
    bound when the serving model was judged, on `judged_on` attempts that it had not seen.
    """

    text: str
    own_runs: int
    nearest: list[NearKind]
    model_version: str | None
    bounds_meant_to_hold: float
    bounds_held: float | None
    judged_on: int | None


class TypeForecast(msgspec.Struct, frozen=True, kw_only=True):
    """The forecast of a job on one type of device that it has to itself."""

    device_type: str
    forecast: ForecastView
    evidence: EvidenceView


class PartnerView(msgspec.Struct, frozen=True, kw_only=True):
    """A job that would share the device, and what that would cost both: time together / time alone. Null: not known.

    `evidence` says what the slowdowns rest on: `measured`, `learned`, `partly learned`, or `rule`. `name` and `kind` are null for
    another user's job where the site shows a summary.
    """

    job: int | None
    name: str | None
    kind: str | None
    expected_slowdown: float | None
    upper_slowdown: float | None
    partner_slowdown: float | None
    partner_upper_slowdown: float | None
    unsafe: bool
    evidence: str | None


class BesideView(msgspec.Struct, frozen=True, kw_only=True):
    """Whether it might join the jobs on a device now, or a partner that was named in the question: then `device` is null."""

    device: str | None
    device_name: str | None
    device_type: str
    partners: list[PartnerView]
    verdict: VerdictView


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """The forecast of a submission that is not queued.

    `expected_start` is now where `free_devices` would take it (their names); else that of a job that asks for one device and
    is queued behind all waiting jobs, and null where none is estimated.
    `forecast` and `evidence` are those of the first type of device for which there is evidence. `features` are what
    the forecast is made from: of the command, the script and the files that the command names; `origins` in them says which.
    """

    kind: str
    forecast: ForecastView | None
    evidence: EvidenceView | None
    never_fits: str | None
    expected_start: ExpectedStart | None
    free_devices: list[str]
    features: dict[str, Any]
    device_types: list[TypeForecast]
    beside: list[BesideView]
    excluded: list[VerdictView]
    """Devices that it could not have because it asks for others, and idle ones that would refuse it now."""


class ShadowPair(msgspec.Struct, frozen=True, kw_only=True):
    """All sharing opportunities of one kind beside another: means of the forecasts, sums of their effects."""

    newcomer: str
    beside: str
    times: int
    gpu_hours_saved: float
    newcomer_slowdown: float
    beside_slowdown: float
    wait_avoided_mean_s: float
    evidence: str | None


class ShadowReport(msgspec.Struct, frozen=True, kw_only=True):
    """What sharing would have saved in the last days; `definition` says how it is counted.

    Of `chances`, `counted` are in the figures; `open` still run or wait, `never_ran` were cancelled before they ran, and for
    `slowdown_unknown` no slowdown was forecast. Slowdowns are of whole jobs, time together / time alone. `attempts_ended` counts
    all attempts that ended in that time, `attempts_shared` those of them that really had a partner.
    """

    on: bool
    days: int
    since: str
    definition: str
    chances: int
    counted: int
    open: int
    never_ran: int
    slowdown_unknown: int
    gpu_hours_run: float
    gpu_hours_saved: float
    wait_avoided_mean_s: float | None
    wait_avoided_hours: float
    slowdown_mean: float | None
    slowdown_worst: float | None
    slowdown_upper_worst: float | None
    delay_hours: float
    pairs: list[ShadowPair]
    attempts_ended: int
    attempts_shared: int


class UsageGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a group of attempts that ended; `user`, `project` and `week` (ISO, `2026-W47`) are null where not chosen.

    Hours are device-hours. A sum is of the attempts for which it is known, and null if there is none; `unknown` counts the others
    by name. `used_at_most_hours` and `idle_at_least_hours` are by peak utilisation. `saved_hours` is what the attempts would have
    held alone minus their part of the time that their devices were occupied, `slowed_hours` what partners added to them,
    `lost_hours` those held by attempts that failed, timed out, ran out of memory or lost their host. `idle_kwh` is the part of
    `energy_kwh` that the devices take anyway.
    """

    user: str | None
    project: str | None
    week: str | None
    jobs: int
    attempts: int
    requested_hours: float | None
    held_hours: float
    used_at_most_hours: float | None
    idle_at_least_hours: float | None
    shared_hours: float
    saved_hours: float | None
    slowed_hours: float | None
    lost_hours: float
    hours_by_end: dict[str, float]
    energy_kwh: float | None
    idle_kwh: float | None
    cost: float | None
    unknown: dict[str, int]


class UsageReport(msgspec.Struct, frozen=True, kw_only=True):
    """What users and projects had of the devices, of the attempts that ended in the last days."""

    days: int
    since: str
    by: list[str]
    price_per_kwh: float
    total: UsageGroup
    groups: list[UsageGroup]


class SeriesPoint(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt at one moment, or the means since the point before. `power_watts` is of its whole devices, partners included."""

    at: str
    at_unix: float
    utilization_pct: float | None
    memory_bytes: int | None
    rate: float | None
    power_watts: float | None
    partners: list[int]


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt used over time, oldest first: a point every ten seconds, fewer of a long attempt. `attempt` is null for a
    job that never had one."""

    id: int
    attempt: int | None
    points: list[SeriesPoint]
