"""Jobs: lists, one job, and why a job waits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from aiohttp import web

from gpuq.adapters.store.contract import AttemptRow, JobRow, Store
from gpuq.api import views
from gpuq.api.context import ApiContext, context_of
from gpuq.api.contract import params
from gpuq.api.contract.parameters import ListQuery
from gpuq.api.contract.schema import Explanation, JobList, JobView
from gpuq.api.identity import caller_of
from gpuq.api.messages import STATES
from gpuq.api.reply import reply
from gpuq.core.state.device_names import DeviceNames
from gpuq.core.state.job import WAITING, JobId, JobState
from gpuq.errors import NotFound, Unreachable
from gpuq.messages.live import LiveView


async def jobs(request: web.Request) -> web.Response:
    """A page of jobs, newest first unless `order=oldest`."""
    context = context_of(request)
    query = params.query(request, ListQuery)
    limit = query.limit
    rows, attempts = await context.read(
        _page,
        context,
        {
            "ids": query.ids or None,
            "states": params.states(query.state),
            "owner": params.owner(query.owner, caller_of(request)),
            "after": params.given(query.after),
            "limit": limit + 1,
            "newest_first": query.order == "newest",
        },
    )
    seen = await context.live.read()
    forecasts = await _forecasts(context, rows[:limit])
    names = await device_names(context, seen.view)
    pending = any(row.state is JobState.PENDING for row in rows[:limit])
    places = {job: place for place, job in enumerate(await waiting_order(context), 1)} if pending else {}
    lines = [
        views.job_line(
            row, attempts.get(row.id), seen.view, names, places.get(row.id), forecasts.get(row.record.signature)
        )
        for row in rows[:limit]
    ]
    lines = [msgspec.structs.replace(line, dispatcher=seen.dispatcher) for line in lines]
    return reply(JobList(jobs=lines, next=lines[-1].id if len(rows) > limit else None))


async def show(request: web.Request) -> web.Response:
    """One job with all its attempts."""
    context = context_of(request)
    row, attempts = await find(context, request.match_info["id"])
    order = await waiting_order(context) if row.state is JobState.PENDING else []
    live = await context.live.read()
    view = await _view(context, row, attempts, live.view, order)
    return reply(msgspec.structs.replace(view, dispatcher=live.dispatcher))


async def explain(request: web.Request) -> web.Response:
    """Why the job waits, or why it runs where it runs."""
    context = context_of(request)
    row, attempts = await find(context, request.match_info["id"])
    order = await waiting_order(context) if row.state is JobState.PENDING else []
    live = await context.live.read()
    line = await _view(context, row, attempts, live.view, order)
    sentences = [STATES[row.state]]
    if line.verdict is not None:
        sentences = (
            [line.verdict.sentence] if row.state is JobState.PENDING else [STATES[row.state], line.verdict.sentence]
        )
    return reply(
        Explanation(
            id=row.id,
            state=row.state,
            sentence=" ".join(sentences),
            verdict=line.verdict,
            position=line.position,
            waiting=len(order) if row.state is JobState.PENDING else None,
            expected_start=line.expected_start,
            device=line.device,
            device_name=line.device_name,
            partners=line.partners,
            forecast=line.forecast,
            attempts=line.attempts,
            dispatcher=live.dispatcher,
            blink=(line.live.blink if line.live else None) or line.actual.blink,
        )
    )


# --- shared with the logs and the page -----------------------------------------------------------------------------


async def find(context: ApiContext, text: str) -> tuple[JobRow, list[AttemptRow]]:
    """The job of that id with its attempts. Raises NotFound."""
    job = params.job_id(text)
    row, attempts = await context.read(_job_with_attempts, context, job)
    if row is None:
        raise NotFound(f"There is no job {job}.")
    return row, attempts


async def waiting_order(context: ApiContext) -> list[int]:
    """The waiting jobs' ids in the order of their start; empty if Redis does not answer."""
    try:
        return list(await context.parts.stream.waiting())
    except Unreachable:
        return []


def position(order: Sequence[int], job: JobId) -> int | None:
    """The job's position, 1 for the next to start; None if it is not in the order."""
    return order.index(job) + 1 if job in order else None


async def device_names(context: ApiContext, live: LiveView | None) -> DeviceNames:
    """The display names of all known devices."""
    return DeviceNames(await context.read(context.devices.get), live.reported if live else ())


# --- inside --------------------------------------------------------------------------------------------------------


async def _view(
    context: ApiContext, row: JobRow, attempts: Sequence[AttemptRow], live: LiveView | None, order: Sequence[int]
) -> JobView:
    names, forecast = await device_names(context, live), await _forecast(context, row)
    return views.job_view(row, attempts, live, names, position(order, row.id), forecast)


def _page(context: ApiContext, filters: dict[str, Any]) -> tuple[list[JobRow], dict[JobId, AttemptRow]]:
    """Jobs and their last attempts: live attempts in one call, those of ended jobs one by one."""
    rows = context.store.jobs(**filters)
    last = {row.job: row for row in context.store.live_attempts()}
    for row in rows:
        if row.id not in last and row.state not in WAITING and (found := last_attempt(context.store, row)) is not None:
            last[row.id] = found
    return rows, last


def last_attempt(store: Store, row: JobRow) -> AttemptRow | None:
    """The last attempt of a job; None if it never had one. Blocks."""
    attempts = store.attempts(row.id) if row.attempt else []
    return attempts[-1] if attempts else None


def _job_with_attempts(context: ApiContext, job: JobId) -> tuple[JobRow | None, list[AttemptRow]]:
    row = context.store.job(job)
    return row, (context.store.attempts(job) if row is not None and row.attempt else [])


async def _forecast(context: ApiContext, row: JobRow) -> dict[str, Any] | None:
    models = context.parts.models
    if models is None or row.state not in WAITING:
        return None
    return await context.read(models.forecast, row.record)


async def _forecasts(context: ApiContext, rows: Sequence[JobRow]) -> dict[str, dict[str, Any]]:
    """Signature -> the current forecast, of the waiting jobs among `rows`."""
    waiting = [row.record for row in rows if row.state in WAITING]
    if context.parts.models is None or not waiting:
        return {}
    return await context.read(context.parts.models.forecasts, waiting)
