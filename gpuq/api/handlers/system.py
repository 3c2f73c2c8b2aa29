"""Devices, the queue, probes and metrics.

The probes return fixed words only, because anyone may call them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from functools import partial

from aiohttp import web

import gpuq
from gpuq.adapters.store.row_types import Selection
from gpuq.api import metrics, views, visibility
from gpuq.api.context import ApiContext, context_of, reply
from gpuq.api.contract import params
from gpuq.api.contract.schema import DeviceView, Queue, Ready, Version
from gpuq.api.handlers.jobs import by_job, device_names, waiting_order
from gpuq.core.state.job import JobId, JobState
from gpuq.errors import GpuqError
from gpuq.messages.live import LiveView


async def livez(_: web.Request) -> web.Response:
    """Whether this process serves requests."""
    return web.Response(text="ok\n")


async def readyz(request: web.Request) -> web.Response:
    """Whether the database, Redis and the dispatcher work, so that a submission would be scheduled."""
    context = context_of(request)
    # At once: each may take seconds where a network drops packets or a name server does not answer.
    database, (live, redis) = await asyncio.gather(_database_sign(context), context.live.probe())
    ready = database == redis == live.dispatcher == "ok"
    answer = Ready(ready=ready, database=database, redis=redis, dispatcher=live.dispatcher)
    return reply(answer, 200 if ready else 503)


async def _database_sign(context: ApiContext) -> str:
    try:
        await context.read(context.store.last_seq)
    except GpuqError as error:
        return "schema" if type(error).__name__ == "SchemaMismatch" else "unreachable"
    except Exception:  # noqa: BLE001 - a probe answers with a fixed word, whatever is wrong
        return "unreachable"
    return "ok"


async def version(_: web.Request) -> web.Response:
    """The version of this gpuq."""
    return reply(Version(version=gpuq.__version__, api="v1"))


async def devices(request: web.Request) -> web.Response:
    """Every device with the jobs on it, or those with these ids."""
    context, query = context_of(request), params.query(request, params.DevicesQuery)
    live = (await context.live.read()).view
    return reply(await device_list(context, live, partial(visibility.sees, request), query.ids or None))


async def queue(request: web.Request) -> web.Response:
    """The waiting jobs' ids in the dispatcher's order, or by id if Redis has no order."""
    context = context_of(request)
    if order := await waiting_order(context):
        return reply(Queue(waiting=order, source="redis"))
    waiting = await context.read(context.store.select, Selection(states=(JobState.PENDING,)))
    return reply(Queue(waiting=list(waiting), source="record"))


async def prometheus(request: web.Request) -> web.Response:
    """Counts and gauges for Prometheus."""
    context = context_of(request)
    counts = await context.counts()
    body = metrics.render(counts, await context.live.read(), context)
    return web.Response(body=body, headers={"Content-Type": metrics.MEDIA_TYPE})


async def device_list(
    context: ApiContext, live: LiveView | None, sees: Callable[[str], bool], ids: Collection[str] | None = None
) -> list[DeviceView]:
    """Every device, or those with these ids, with its residents' forecasts, and the names of those whose owner `sees` allows."""
    wanted = None if ids is None else frozenset(ids)
    known = [device for device in await context.read(context.devices) if wanted is None or device.id in wanted]
    shown = [] if live is None else [device for device in live.devices if wanted is None or device.id in wanted]
    on_them = {JobId(resident.job) for device in shown for resident in device.residents}
    if wanted is not None and {device.id for device in known} <= {device.id for device in shown}:
        found = await context.read(context.store.attempts, *on_them)
        attempts = by_job(attempt for attempt in found if attempt.ended_at is None)
    else:
        attempts = by_job(await context.read(context.store.live_attempts))
        on_them |= attempts.keys()
    labels = await context.read(context.store.labels, sorted(on_them))
    names: dict[int, str | None] = {job: label.name for job, label in labels.items() if sees(label.owner)}
    return views.device_views(known, shown, await device_names(context, live), names, attempts)
