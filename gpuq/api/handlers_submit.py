"""`POST /api/v1/jobs` and `POST /api/v1/predict`: a submission arrives, ids or a forecast leave.

Nothing here touches the script or the directory: the CLI checks them where the user is, the worker where the job runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from gpuq.api import asked, fits
from gpuq.api.context import Context, context_of
from gpuq.api.identity import Caller, caller_of
from gpuq.api.reply import reply
from gpuq.api.schema import Prediction, Submitted, SubmittedMany
from gpuq.api.views import forecast_view
from gpuq.core.device import Device
from gpuq.errors import NeverFits
from gpuq.submission import JobRecord, Submission

# Beyond this many, describing them would hold the loop for too long.
_INLINE = 100


async def submit(request: web.Request) -> web.Response:
    """Queue one job, or up to 10,000 in one transaction. Answered after the commit."""
    context = context_of(request)
    caller = caller_of(request)
    wanted, is_list = await asked.submissions(request)
    await _check_fit(context, wanted)
    key = asked.idempotency_key(request)
    if len(wanted) <= _INLINE:
        records = _records(context, caller, wanted, key)
    else:
        records = await context.read(_records, context, caller, wanted, key)
    ids = await context.committer.add(records)
    if is_list:
        return reply(SubmittedMany(ids=[int(one) for one in ids]), 201)
    answer = reply(Submitted(id=ids[0]), 201)
    answer.headers["Location"] = f"/api/v1/jobs/{ids[0]}"
    return answer


async def predict(request: web.Request) -> web.Response:
    """What would be believed of this submission, without queueing it."""
    context = context_of(request)
    wanted = await asked.submission(request)
    record = _records(context, caller_of(request), [wanted], None)[0]
    models = context.parts.models
    forecast = await context.read(models.forecast, record) if models is not None else None
    devices = await context.read(context.devices.get)
    return reply(
        Prediction(kind=record.kind, forecast=forecast_view(forecast), never_fits=_never_fits(wanted, devices))
    )


async def _check_fit(context: Context, wanted: Sequence[Submission]) -> None:
    if not any(fits.needs_devices(one) for one in wanted):
        return
    devices = await context.read(context.devices.get)
    for one in wanted:
        fits.check(one, devices)


def _never_fits(wanted: Submission, devices: Sequence[Device]) -> str | None:
    try:
        fits.check(wanted, devices)
    except NeverFits as error:
        return error.message
    return None


def _records(context: Context, caller: Caller, wanted: Sequence[Submission], key: str | None) -> list[JobRecord]:
    now = context.now()
    records = []
    for index, one in enumerate(wanted):
        kind, signature, features = context.parts.describe(one, caller.user)
        records.append(
            JobRecord(
                submission=one,
                owner=caller.user,
                uid=caller.uid,
                kind=kind,
                signature=signature,
                features=features,
                submitted_at=now,
                # Each job of a batch needs a key of its own; the same batch sent again gives the same keys.
                idempotency_key=key if key is None or index == 0 else f"{key}#{index}",
            )
        )
    return records
