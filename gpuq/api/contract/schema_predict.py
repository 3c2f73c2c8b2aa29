"""What the API says of what would be: of a job that is not submitted, and of sharing that was not done.

Like `schema.py`: leaves only, units in the keys, what is unknown is null.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gpuq.api.contract.schema import ExpectedStart, ForecastView, VerdictView


class NearKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind that is like the one asked about. `likeness` is from 0 to 1."""

    kind: str
    likeness: float


class EvidenceView(msgspec.Struct, frozen=True, kw_only=True):
    """What a forecast rests on, and how sure it is.

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
    """What is believed of a job on one type of device, with the device to itself."""

    device_type: str
    forecast: ForecastView
    evidence: EvidenceView


class PartnerView(msgspec.Struct, frozen=True, kw_only=True):
    """One who would be beside it, and what that would cost both: time together / time alone. Null: not known.

    `evidence` says what the slowdowns rest on: `measured`, `learned`, `partly learned`, or `rule`.
    """

    job: int | None
    name: str | None
    kind: str
    expected_slowdown: float | None
    upper_slowdown: float | None
    partner_slowdown: float | None
    partner_upper_slowdown: float | None
    unsafe: bool
    evidence: str | None


class BesideView(msgspec.Struct, frozen=True, kw_only=True):
    """Whether it might join those who are on a device now, or one that was asked about: then `device` is null."""

    device: str | None
    device_name: str | None
    device_type: str
    partners: list[PartnerView]
    verdict: VerdictView


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """What would be believed of a submission, without queueing it.

    `expected_start` is now where `free_devices` would take it (their names); else that of a job that would ask for one device and
    go behind all who wait, and null where no estimate is calibrated.
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


class ShadowPair(msgspec.Struct, frozen=True, kw_only=True):
    """All chances of one kind beside another: means of what was foretold, sums of what it would have come to."""

    newcomer: str
    beside: str
    times: int
    gpu_hours_saved: float
    newcomer_slowdown: float
    beside_slowdown: float
    wait_avoided_mean_s: float
    evidence: str | None


class ShadowReport(msgspec.Struct, frozen=True, kw_only=True):
    """What sharing would have done in the last days; `definition` says how it is counted.

    Of `chances`, `counted` are in the figures; `open` still run or wait, `never_ran` were cancelled before they ran, and of
    `slowdown_unknown` no slowdown was foretold. Slowdowns are of whole jobs, time together / time alone. `attempts_ended` counts
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
