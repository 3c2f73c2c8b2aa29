"""The page of the week: what sharing saved, which budgets were exceeded, and what was held for nothing, by user and project."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from aiohttp import web

from gpuq.adapters.store.row_types import Run
from gpuq.api import visibility
from gpuq.api.context import ApiContext, context_of
from gpuq.api.contract import params
from gpuq.api.contract.schema_predict import UsageGroup
from gpuq.api.handlers.jobs import device_names
from gpuq.api.handlers.shadow import DAY_S
from gpuq.api.identity import caller_of
from gpuq.api.page.frame import page
from gpuq.api.usage import group_of, groups_of, uses

KEPT_S = 60.0
_SHOWN = 20


@dataclass(frozen=True)
class Exceeded:
    """A run that partners slowed beyond its budget; both as time together / time alone."""

    run: Run
    slowdown: float
    budget: float


@dataclass(frozen=True)
class Week:
    """The figures of some days. `shared` counts runs with a partner, `measured` those of them whose slowdown is known."""

    total: UsageGroup
    users: list[UsageGroup]
    projects: list[UsageGroup]
    exceeded: list[Exceeded]
    exceeded_count: int
    measured: int
    shared: int
    idle: list[tuple[Run, float]]
    """Runs that held devices for longest without using them, and the device-hours of that, at least."""


async def week(request: web.Request) -> web.Response:
    """The page of the week."""
    context = context_of(request)
    days = params.query(request, params.WeekQuery).days
    owner = None if visibility.sees_all(request) else caller_of(request).user
    live = await context.live.read()
    found = await context.kept.get(("week", days, owner), partial(_week, context, days, owner), for_s=KEPT_S)
    now = context.now()
    booked = [one for one in await context.read(context.store.bookings, since=now) if owner in (None, one.user)]
    names = await device_names(context, live.view)
    return await page(
        request,
        "week",
        live,
        days=days,
        found=found,
        owner=owner,
        reservations=[(one, [names.of(device) for device in one.devices]) for one in booked],
        price=context.settings.scheduling.energy_price_per_kwh,
    )


def _week(context: ApiContext, days: int, owner: str | None) -> Week:
    since = context.now() - days * DAY_S
    runs = context.runs.since(since)
    # Attempts that ended before, and were there when the first of these began.
    runs = context.runs.since(min((run.started_at for run in runs), default=since))
    found = uses(runs, since, lambda run: owner in (None, run.owner))
    scheduling, limits = context.settings.scheduling, context.settings.admission
    price = scheduling.energy_price_per_kwh
    shared = [run for run, _ in found if run.actual and run.actual.partners]
    exceeded = _exceeded(shared, limits.max_slowdown)
    idle = sorted(
        ((run, use.idle_at_least) for run, use in found if use.idle_at_least), key=lambda pair: pair[1], reverse=True
    )
    return Week(
        total=group_of({}, [use for _, use in found], price),
        users=groups_of(found, ["user"], price)[:_SHOWN],
        projects=groups_of(found, ["project"], price)[:_SHOWN],
        exceeded=exceeded[:_SHOWN],
        exceeded_count=len(exceeded),
        measured=sum(run.actual is not None and run.actual.slowdown is not None for run in shared),
        shared=len(shared),
        idle=idle[:5],
    )


def _exceeded(runs: Sequence[Run], usual: float) -> list[Exceeded]:
    """Those that were slowed beyond their own budget, or the usual one; most beyond first."""
    found = []
    for run in runs:
        slowdown, budget = run.actual.slowdown if run.actual else None, run.max_slowdown or usual
        if slowdown is not None and slowdown > budget:
            found.append(Exceeded(run, slowdown, budget))
    return sorted(found, key=lambda one: one.budget - one.slowdown)
