"""`GET /api/v1/report/usage`: what users and projects had of the devices."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from gpuq.adapters.store.row_types import Run
from gpuq.api import visibility
from gpuq.api.context import ApiContext, context_of, reply
from gpuq.api.contract import params
from gpuq.api.contract.schema_predict import UsageReport
from gpuq.api.handlers.shadow import DAY_S
from gpuq.api.identity import caller_of
from gpuq.api.usage import usage as figures
from gpuq.format import rfc3339


async def usage(request: web.Request) -> web.Response:
    """The figures of the last `days`; a user who is not shown the jobs of others gets those of the own jobs."""
    context = context_of(request)
    query = params.query(request, params.UsageQuery)
    caller = caller_of(request)
    owner = params.owner(query.owner, caller) if visibility.sees_all(request) else caller.user
    return reply(await context.analyse(report, context, query, lambda run: owner in (None, run.owner)))


def report(context: ApiContext, query: params.UsageQuery, counts: Callable[[Run], bool]) -> UsageReport:
    """The figures of what `counts` says. Blocks."""
    since = context.now() - query.days * DAY_S
    runs = context.runs.since(since)
    # Attempts that ended before, and were there when the first of these began.
    began = min((run.started_at for run in runs), default=since)
    price = params.given(query.price)
    price = context.settings.scheduling.energy_price_per_kwh if price is None else price
    by: list[str] = list(dict.fromkeys(query.by))
    total, groups = figures(context.runs.since(began), since, by, price, counts)
    return UsageReport(
        days=query.days,
        since=rfc3339(since),
        by=by,
        price_per_kwh=price,
        total=total,
        groups=groups,
    )
