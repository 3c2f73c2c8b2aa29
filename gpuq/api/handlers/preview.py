"""Whose expected start a change would move, and by how much: the queue of this moment is replayed without the change and with it.

The replay is that of the dispatcher's estimates, from the same forecasts, but without what it learned from earlier starts and
without reservations: it shows differences, not the starts themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import isfinite

import msgspec
from aiohttp import web

from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.to_core import attempt_from_row, job_from_row
from gpuq.api import visibility
from gpuq.api.context import ApiContext, context_of, reply
from gpuq.api.contract import bodies
from gpuq.api.contract.schema_jobs import Preview, StartChange
from gpuq.api.handlers import control
from gpuq.api.handlers.predict import snapshot_of
from gpuq.api.identity import caller_of
from gpuq.core.scheduling.cache import PassCache
from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.forecast_table import ForecastTable
from gpuq.core.state.apply import apply
from gpuq.core.state.device import Host, HostId
from gpuq.core.state.edit import JobEdit, edit_of
from gpuq.core.state.events import JobEdited
from gpuq.core.state.forecast import UNKNOWN, Forecast
from gpuq.core.state.job import WAITING, Job, JobId
from gpuq.core.state.state import State
from gpuq.messages.codec import decoded
from gpuq.messages.job_record import QueuedRecord
from gpuq.messages.live import LiveView
from gpuq.policies.estimates.estimator import estimator_of

_ROWS_AT_ONCE = 500
# Of so many jobs from the head of the queue, and of so many that are edited, the starts are compared; those behind them wait long
# in any case.
_MOST = 300
# A smaller difference is none to the one who waits.
_LEAST_S = 60.0
_body = msgspec.json.Decoder(bodies.EditBody)


async def preview(request: web.Request) -> web.Response:
    """What an edit of the same body would do to the expected starts. Nothing is changed."""
    context = context_of(request)
    wanted = await bodies.body(request, _body)
    _, found = await control.selected(request, wanted.where, WAITING)
    live = await context.live.read()
    change = edit_of(wanted.edit.changes)
    names, changes = await context.analyse(_changes, context, live.view, list(found), change, caller_of(request).user)
    shown = [
        msgspec.structs.replace(one, name=name) if visibility.sees(request, owner) else one
        for one in changes
        for name, owner in [names[one.id]]
    ]
    return reply(Preview(changes=shown))


def _changes(
    context: ApiContext, live: LiveView | None, edited: list[JobId], change: JobEdit, by: str
) -> tuple[dict[int, tuple[str | None, str]], list[StartChange]]:
    """(name and owner of each job below, the changes of expected starts, the largest first). Blocks."""
    records: dict[JobId, QueuedRecord] = {}
    state = _state(context.store, live, context.now(), records)
    forecasts = _forecasts(context, records)
    before = _starts(context, state, forecasts, edited)
    for job in edited:
        apply(state, JobEdited(job, change, by), context.now())
    after = _starts(context, state, forecasts, edited)
    found = []
    for job in dict.fromkeys([*before, *after]):
        was, is_ = (starts[job] if isfinite(starts.get(job, float("inf"))) else None for starts in (before, after))
        moved = (was is None) != (is_ is None) or (was is not None and is_ is not None and abs(is_ - was) >= _LEAST_S)
        if moved and (job in before) == (job in after):
            found.append(StartChange(id=job, name=None, before_s=was, after_s=is_))
    found.sort(key=lambda one: -abs((one.after_s or 0.0) - (one.before_s or 0.0)))
    return {one.id: (state.jobs[JobId(one.id)].name, state.jobs[JobId(one.id)].owner) for one in found}, found


def _state(store: Store, live: LiveView | None, now: float, records: dict[JobId, QueuedRecord]) -> State:
    """The queue and the devices as the record and the live view have them; fills in `records`."""
    jobs: dict[JobId, Job] = {}
    last: JobId | None = None
    while rows := store.queued_jobs(after=last, limit=_ROWS_AT_ONCE):
        last = rows[-1].id
        jobs |= {row.id: job_from_row(row) for row in rows}
        records |= {row.id: row.record for row in rows}
    attempts = [attempt_from_row(row) for row in store.live_attempts() if row.job in jobs]
    snapshots = [snapshot_of(device, ()) for device in live.devices] if live else []
    devices = {one.device.id: one.device for one in snapshots}
    devices |= {device.id: device for device in store.devices(forgotten=False)}
    return State(
        jobs=jobs,
        # Those on a host that was forgotten meanwhile keep no device busy.
        attempts={attempt.id: attempt for attempt in attempts if devices.keys() >= set(attempt.devices)},
        devices=devices,
        hosts={one.device.host: Host(one.device.host, "", now, no_starts=one.no_starts) for one in snapshots},
        # The live view may be some seconds old, and its devices are not stale for that.
        readings={one.device.id: replace(one.reading, at=now) for one in snapshots if one.reading is not None},
        quotas={quota.account: quota for quota in store.quotas()},
        drained={HostId(host): why for host, why in store.drained().items()},
        bookings={booking.id: booking for booking in store.bookings(since=now)},
    )


def _forecasts(context: ApiContext, records: Mapping[JobId, QueuedRecord]) -> ForecastTable:
    """For each job its forecast alone, the same on every type of device."""
    forecasts = {} if context.models is None else context.models.forecasts(records.values())
    found = {name: decoded(one, Forecast) for name, one in forecasts.items()}
    return ForecastTable(lambda asked: {question: found.get(question.signature, UNKNOWN) for question in asked})


def _starts(context: ApiContext, state: State, forecasts: ForecastTable, edited: list[JobId]) -> dict[JobId, float]:
    """Seconds until the start of the first jobs of the queue and of the first edited ones: the median."""
    estimator = estimator_of(context.settings.scheduling)
    a_pass = SchedulingContext(state, forecasts, PassCache(), context.settings.admission, context.now())
    waiting = estimator.in_order(a_pass, a_pass.waiting)
    chosen = set(edited[:_MOST])
    considered = [job for place, job in enumerate(waiting) if place < _MOST or job.id in chosen]
    return {job: estimate.p50_s for job, estimate in estimator.estimate(a_pass, considered).items()}
