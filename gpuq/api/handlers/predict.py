"""`POST /api/v1/predict`: the forecast of a submission, its evidence and reliability, and which jobs it might run beside now.

The question may name a type of device, and a job or a kind to share with. Nothing is queued. Whether it might share is decided
by the same `admit` that the dispatcher uses, on the live view of this moment: the answer is no promise, because the queue may
change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from aiohttp import web
from msgspec import structs

from gpuq.api import visibility
from gpuq.api.context import ApiContext, context_of, reply
from gpuq.api.contract import bodies, params
from gpuq.api.contract.schema_jobs import VerdictView
from gpuq.api.contract.schema_predict import BesideView, EvidenceView, NearKind, PartnerView, Prediction, TypeForecast
from gpuq.api.handlers.submit import check_fits, records, with_device_ids
from gpuq.api.identity import caller_of
from gpuq.api.models import ExplainedForecast
from gpuq.api.views import excluded, expected_start, forecast_view, verdict_view
from gpuq.core.scheduling.admit import DeviceSnapshot, admit
from gpuq.core.state.attempt import Attempt, AttemptId
from gpuq.core.state.device import Device, DeviceId, HostId, Reading
from gpuq.core.state.device_names import DeviceNames
from gpuq.core.state.forecast import UNKNOWN
from gpuq.core.state.job import Job, JobId, KindId, Sharing
from gpuq.core.state.verdict import Verdict
from gpuq.errors import Conflict, NeverFits, NotFound
from gpuq.messages.codec import decoded, plain
from gpuq.messages.job_record import JobRecord, constraints_of, to_core
from gpuq.messages.live import DeviceStatus, LiveView, ResidentStatus

# Busy devices that are looked at, the least loaded first.
_MOST_DEVICES = 16


@dataclass(frozen=True)
class _OccupiedDevice:
    """A device with its residents: as it is now, or as the question supposes it (`real` is False)."""

    snapshot: DeviceSnapshot
    names: Mapping[int, str | None]
    real: bool = True


async def predict(request: web.Request) -> web.Response:
    """The forecast of this submission; nothing is queued."""
    context = context_of(request)
    wanted = await bodies.submission(request)
    if wanted.array is not None:
        raise Conflict(
            "A prediction is about one job, not about an array.", fix="Send the submission of one of its tasks."
        )
    caller = caller_of(request)
    [record] = await context.for_user(records, context, caller, [wanted])
    live = (await context.live.read()).view
    query = params.query(request, params.PredictQuery)
    return reply(await prediction(request, record, live, params.given(query.beside), params.given(query.device_type)))


async def prediction(
    request: web.Request, record: JobRecord, live: LiveView | None, beside: str | None, device_type: str | None
) -> Prediction:
    """The forecast of this record as the caller is shown it. Raises NotFound for a type of device or a job that there is not."""
    context = context_of(request)
    answer = await context.analyse(_prediction, context, record, live, beside, device_type)
    return answer if visibility.sees_all(request) else await _without_others(request, answer)


def _prediction(
    context: ApiContext, record: JobRecord, live: LiveView | None, beside: str | None, device_type: str | None
) -> Prediction:
    devices = context.devices()
    names = DeviceNames(devices, live.reported if live else ())
    never = None
    try:
        record = structs.replace(record, submission=with_device_ids(record.submission, names))
        check_fits(record.submission, context.devices_to_fit(), names)
    except NeverFits as error:
        never = error.message
    constraints = constraints_of(record.submission)
    allowed = {one.id: one for one in devices if constraints is None or constraints.unmet(one) is None}
    by_type = {one.type: one for one in allowed.values() if device_type in (None, one.type)}
    if device_type is not None and devices and device_type not in {one.type for one in devices}:
        known = ", ".join(sorted({device.type for device in devices}))
        raise NotFound(f"There is no device of type {params.shown(device_type)}.", fix=f"Known types: {known}.")
    if context.models is not None:
        context.models.watch(live)
    alone = _explained_forecasts(context, record.kind, record.features, [(device, ()) for device in by_type.values()])
    types = [_type_forecast(one, by_type[one.device_type]) for one in alone]
    first_known = next((place for place, one in enumerate(alone) if one.forecast.known), 0)
    best = types[first_known] if types else None
    occupied = [*_supposed_devices(context, beside, by_type), *_occupied_now(context, live, allowed, by_type)]
    questions = [(one.snapshot.device, tuple(a.kind for a in one.snapshot.residents)) for one in occupied]
    # Without models there are no forecasts, and so nothing is said of partners.
    together = _explained_forecasts(context, record.kind, record.features, questions)
    beside_views = [_beside(context, record, *pair, names) for pair in zip(occupied, together, strict=False)]
    idle = (
        [one for one in live.devices if not one.residents and one.id in allowed and one.type in by_type] if live else []
    )
    shared = [
        one.snapshot.device
        for one, view in zip(occupied, beside_views, strict=False)
        if one.real and view.verdict.admitted and not context.settings.scheduling.shadow
    ]
    verdicts = [] if never else _judged_idle(context, record, idle, alone)
    free = _would_admit_now(to_core(JobId(0), record), shared, verdicts)
    return Prediction(
        kind=record.kind,
        forecast=best.forecast if best else None,
        evidence=best.evidence if best else None,
        never_fits=never,
        expected_start=expected_start(
            _start(context, record, live, is_free=bool(free)), checked=bool(free) or live is None or live.starts_checked
        ),
        free_devices=[names.of(device) for device in free],
        features={name: value for name, value in record.features.items() if name != "tokens"},
        device_types=types,
        beside=beside_views,
        excluded=[*excluded(constraints, devices, names), *_refusals(verdicts, names)],
    )


async def _without_others(request: web.Request, answer: Prediction) -> Prediction:
    """The answer without the names and kinds of other users' jobs."""
    ids = sorted({JobId(partner.job) for view in answer.beside for partner in view.partners if partner.job is not None})
    rows = await context_of(request).read(context_of(request).store.jobs, ids=ids)
    seen = {None, *(row.id for row in rows if visibility.sees(request, row.record.owner))}
    beside = [
        structs.replace(
            view,
            partners=[p if p.job in seen else structs.replace(p, name=None, kind=None) for p in view.partners],
            verdict=visibility.verdict(request, view.verdict, answer.kind),
        )
        for view in answer.beside
    ]
    shown = visibility.kinds_shown(request, answer.kind)

    def near(evidence: EvidenceView) -> EvidenceView:
        return structs.replace(evidence, nearest=[one for one in evidence.nearest if shown(one.kind)])

    types = [structs.replace(one, evidence=near(one.evidence)) for one in answer.device_types]
    evidence = None if answer.evidence is None else near(answer.evidence)
    return structs.replace(answer, beside=beside, device_types=types, evidence=evidence)


def _explained_forecasts(
    context: ApiContext, kind: str, features: Mapping[str, Any], questions: Sequence[tuple[Device, tuple[str, ...]]]
) -> list[ExplainedForecast]:
    models = context.models
    return [] if models is None else models.explained_forecasts(kind, features, questions)


def _type_forecast(explained: ExplainedForecast, device: Device) -> TypeForecast:
    forecast = forecast_view(plain(explained.forecast), device.total_memory)
    assert forecast is not None
    judged = explained.judged or {}
    under = judged.get("memory_under_share")
    evidence = EvidenceView(
        text=explained.forecast.evidence,
        own_runs=explained.runs,
        nearest=[NearKind(kind=kind, likeness=round(similarity, 3)) for kind, similarity in explained.nearest],
        model_version=explained.forecast.model_version,
        bounds_meant_to_hold=explained.quantile,
        bounds_held=None if under is None else round(1 - under, 4),
        judged_on=judged.get("scored"),
    )
    return TypeForecast(device_type=explained.device_type, forecast=forecast, evidence=evidence)


# --- when ------------------------------------------------------------------------------------------------------------


def _start(
    context: ApiContext, record: JobRecord, live: LiveView | None, *, is_free: bool
) -> tuple[float, float] | None:
    """Unix times of the median and the 90th percentile of its start, None if unknown.

    The dispatcher estimates the start of a job on one device of any type at priority 0, and says nothing of others. Where it has
    that job start at once, and yet no device admits this one, that says nothing of this one either.
    """
    now = context.now()
    if is_free:
        return now, now
    job = to_core(JobId(0), record)
    if live is None or live.newcomer_start is None or job.device_count > 1 or job.priority or job.constraints:
        return None
    return live.newcomer_start if live.newcomer_start[0] > now else None


def _judged_idle(
    context: ApiContext, record: JobRecord, idle: Sequence[DeviceStatus], alone: Sequence[ExplainedForecast]
) -> list[tuple[Device, Verdict]]:
    job, forecasts = to_core(JobId(0), record), {explained.device_type: explained.forecast for explained in alone}
    snapshots = [snapshot_of(device, ()) for device in idle]
    return [
        (one.device, admit(job, forecasts.get(one.device.type, UNKNOWN), one, context.settings.admission))
        for one in snapshots
    ]


def _refusals(verdicts: Sequence[tuple[Device, Verdict]], names: DeviceNames) -> Iterator[VerdictView]:
    for _, verdict in verdicts:
        view = None if verdict.admitted else verdict_view(plain(verdict), names)
        if view is not None:
            yield view


def _would_admit_now(job: Job, shared: Sequence[Device], idle: Sequence[tuple[Device, Verdict]]) -> list[str]:
    """The devices that would take the job now: `shared`, and those of `idle` that admit it. None where no host has enough.

    Waiting jobs are not considered: a device that is free at this moment was offered to them, and they were refused.
    """
    by_host: dict[str, list[str]] = {}
    for there in (*(device for device, verdict in idle if verdict.admitted), *shared):
        by_host.setdefault(there.host, []).append(there.id)
    enough = [devices for devices in by_host.values() if len(devices) >= job.per_host]
    if len(enough) < job.host_count:
        return []
    return [device for devices in (enough if job.device_count == 1 else enough[: job.host_count]) for device in devices]


# --- partners -------------------------------------------------------------------------------------------------------


def _beside(
    context: ApiContext, record: JobRecord, occupied: _OccupiedDevice, explained: ExplainedForecast, names: DeviceNames
) -> BesideView:
    snapshot = occupied.snapshot
    verdict = admit(to_core(JobId(0), record), explained.forecast, snapshot, context.settings.admission)
    if not occupied.real:
        # The supposed device stands for its type, and a kind has no job to name.
        partner = snapshot.residents[0]
        numbers = [
            (name, partner.kind if partner.id.job == 0 and value == "0" else value) for name, value in verdict.numbers
        ]
        verdict = replace(verdict, device=None, numbers=tuple(numbers))
    shown = verdict_view(plain(verdict), names)
    assert shown is not None
    costs = {cost.beside: cost for cost in explained.forecast.pairs}
    partners = []
    for resident in snapshot.residents:
        cost = costs.get(resident.kind)
        partners.append(
            PartnerView(
                job=int(resident.id.job) or None,
                name=occupied.names.get(resident.id.job),
                kind=resident.kind,
                expected_slowdown=cost.newcomer if cost else None,
                upper_slowdown=cost.newcomer_upper if cost else None,
                partner_slowdown=cost.resident if cost else None,
                partner_upper_slowdown=cost.resident_upper if cost else None,
                unsafe=cost.unsafe if cost else False,
                evidence=cost.evidence if cost else None,
            )
        )
    device = snapshot.device.id if occupied.real else None
    return BesideView(
        device=device,
        device_name=None if device is None else names.of(device),
        device_type=snapshot.device.type,
        partners=partners,
        verdict=shown,
    )


def _occupied_now(
    context: ApiContext, live: LiveView | None, allowed: Collection[str], types: Collection[str]
) -> list[_OccupiedDevice]:
    """Those of the allowed devices, of these types, that are busy now; none without a fresh live view."""
    devices = live.devices if live else ()
    busy = [device for device in devices if device.residents and device.id in allowed and device.type in types]
    if not busy:
        return []
    rows = {AttemptId(row.job, row.number): row for row in context.store.live_attempts()}
    labels = context.store.labels([attempt.job for attempt in rows])
    found = []
    for device in sorted(busy, key=lambda one: (len(one.residents), one.utilization_pct or 0.0))[:_MOST_DEVICES]:
        ids = [AttemptId(JobId(resident.job), resident.attempt) for resident in device.residents]
        launches = [rows[attempt].launch.get("attempt") for attempt in ids if attempt in rows]
        if len(launches) != len(ids):
            continue  # an attempt has just ended
        residents = [
            _as_now(decoded(launch, Attempt), resident)
            for launch, resident in zip(launches, device.residents, strict=True)
        ]
        names: dict[int, str | None] = {a.id.job: labels[a.id.job].name for a in residents if a.id.job in labels}
        found.append(_OccupiedDevice(snapshot_of(device, residents), names))
    return found


def _as_now(launched: Attempt, resident: ResidentStatus) -> Attempt:
    """The attempt as the dispatcher has it now, as far as admission goes by it."""
    now = replace(launched, live_memory=resident.memory_bytes)
    if resident.revised is None or resident.promised_bytes is None:
        return now
    promised = (resident.promised_bytes,) * len(launched.devices)
    return replace(now, forecast=resident.revised, shares=resident.revised.known, promised=promised)


def snapshot_of(device: DeviceStatus, residents: Iterable[Attempt]) -> DeviceSnapshot:
    """A device of the live view with these residents, as admission sees it."""
    reading = None
    if device.read_at is not None:
        reading = Reading(
            at=device.read_at,
            used_memory=device.used_memory_bytes,
            utilization_pct=device.utilization_pct,
            foreign_memory=device.foreign_memory_bytes,
            foreign_utilization_pct=device.foreign_utilization_pct,
            unwell=device.unwell,
        )
    known = Device(
        id=DeviceId(device.id),
        host=HostId(device.host),
        backend=device.backend,
        type=device.type,
        total_memory=device.total_memory_bytes,
        sharing=device.sharing,
        features=device.features,
    )
    kept_for = None if device.reserved_for is None else JobId(device.reserved_for)
    return DeviceSnapshot(
        known,
        tuple(residents),
        reading,
        reserved_for=kept_for,
        drained=device.drained,
        no_starts=device.no_starts,
    )


def _supposed_devices(context: ApiContext, beside: str | None, by_type: Mapping[str, Device]) -> list[_OccupiedDevice]:
    """The job or the kind that the question names, alone on an otherwise empty device of each type."""
    if beside is None:
        return []
    job, kind, name, share = JobId(0), beside, None, Sharing.AUTO
    features: Mapping[str, Any] = {}
    if beside.isascii() and beside.isdecimal():
        row = context.store.job(params.job_id(beside))
        if row is None:
            raise NotFound(f"There is no job {beside}.")
        job, kind, features = row.id, row.record.kind, row.record.features
        name, share = row.record.submission.name, row.record.submission.share
    found = []
    for explained in _explained_forecasts(context, kind, features, [(device, ()) for device in by_type.values()]):
        device, forecast = by_type[explained.device_type], explained.forecast
        resident = Attempt(
            id=AttemptId(job, 1),
            kind=KindId(kind),
            host=device.host,
            devices=(device.id,),
            promised=(min(forecast.upper_memory_bytes or device.total_memory, device.total_memory),),
            shares=forecast.known and share is Sharing.AUTO,
            launched_at=0.0,
            forecast=forecast,
        )
        empty = Reading(at=context.now(), used_memory=0, utilization_pct=None, foreign_memory=0)
        found.append(_OccupiedDevice(DeviceSnapshot(device, (resident,), empty), {job: name}, real=False))
    return found
