"""`GET /api/v1/jobs/{id}/series`: what an attempt used over time."""

from __future__ import annotations

from aiohttp import web

from gpuq.api import series as files
from gpuq.api import visibility
from gpuq.api.context import context_of, reply
from gpuq.api.contract import params
from gpuq.api.contract.schema_predict import Series, SeriesPoint
from gpuq.api.handlers.jobs import find
from gpuq.errors import NotFound
from gpuq.format import rfc3339


async def series(request: web.Request) -> web.Response:
    """The points of the last attempt, or of `attempt`."""
    context = context_of(request)
    row, attempts = await find(context, request.match_info["id"])
    visibility.check_sees(request, row.id, row.record.owner)
    number = params.given(params.query(request, params.SeriesQuery).attempt)
    if number is None:
        number = attempts[-1].number if attempts else None
    elif number not in {attempt.number for attempt in attempts}:
        raise NotFound(f"Job {row.id} has no attempt {number}.", fix=f"`gpuq show {row.id}` lists its attempts.")
    points = [] if number is None else await context.run(files.read, context.settings.home.series, row.id, number)
    return reply(
        Series(
            id=row.id,
            attempt=number,
            points=[
                SeriesPoint(
                    at=rfc3339(point.at),
                    at_unix=point.at,
                    utilization_pct=point.utilization_pct,
                    memory_bytes=point.memory_bytes,
                    rate=point.rate,
                    power_watts=point.power_watts,
                    partners=list(point.partners),
                )
                for point in points
            ],
        )
    )
