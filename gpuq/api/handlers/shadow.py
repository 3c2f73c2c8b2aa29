"""`GET /api/v1/report/shadow`: what sharing would have saved and cost in the last days."""

from __future__ import annotations

from aiohttp import web

from gpuq.api.context import ApiContext, context_of, reply
from gpuq.api.contract import params
from gpuq.api.contract.schema_predict import ShadowReport
from gpuq.api.missed_savings import missed_savings
from gpuq.core.state.job import ENDED

DAY_S = 86_400.0


async def shadow(request: web.Request) -> web.Response:
    """The report over the last `days`."""
    context = context_of(request)
    days = params.query(request, params.DaysQuery).days
    return reply(await context.analyse(_report, context, days))


def _report(context: ApiContext, days: int) -> ShadowReport:
    since = context.now() - days * DAY_S
    chances = context.store.chances(since=since)
    finished = context.store.finished_attempts(since=since)
    ran = {row.id for row, _ in finished}
    without_run = [chance.job for chance in chances if chance.job not in ran]
    gone = {row.id for row in context.store.jobs(ids=without_run, states=list(ENDED))}
    return missed_savings(
        [chance for chance in chances if chance.job not in gone],
        finished,
        on=context.settings.scheduling.shadow,
        days=days,
        since=since,
        never_ran=len(gone),
    )
