"""The page of one job: where it is and why, its forecast beside what is measured, its partners, attempts and log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from aiohttp import web

from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.row_types import AttemptRow
from gpuq.api import series, visibility
from gpuq.api.context import ApiContext, context_of
from gpuq.api.contract import params
from gpuq.api.contract.schema_jobs import AttemptView, ForecastView, JobView, VerdictView
from gpuq.api.handlers.jobs import find, view_of
from gpuq.api.handlers.logs import JobLog
from gpuq.api.handlers.system import device_list
from gpuq.api.identity import caller_of
from gpuq.api.page.charts import Chart, Period, charts
from gpuq.api.page.frame import page, strength
from gpuq.api.page.submit_command import submit_command
from gpuq.api.page.templates import slowdown
from gpuq.api.page.what_if import what_if
from gpuq.api.page.why import time_left, why
from gpuq.api.series import Point
from gpuq.api.views import start_in_words
from gpuq.core.state.job import ENDED, WAITING, JobId, JobState
from gpuq.errors import GpuqError
from gpuq.format import duration, expected_peak, gib, percent, when
from gpuq.log_text import readable
from gpuq.messages.live import LiveNumbers
from gpuq.messages.outcome import AttemptOutcome
from gpuq.messages.verdicts import calculation

LOG_SHOWN = 64 * 1024
_PARTNERS_SHOWN = 20


@dataclass(frozen=True)
class Compared:
    """A row of the table of forecast and actual."""

    name: str
    forecast: str
    actual: str


async def job(request: web.Request) -> web.Response:
    """The page of one job."""
    context = context_of(request)
    view, waiting = await view_of(request)
    live = await context.live.read()
    now = context.now()
    devices = await device_list(context, live.view, partial(visibility.sees, request))
    last = view.attempts[-1] if view.attempts and view.state not in WAITING else None
    query = params.query(request, params.JobPageQuery)
    chosen = next((one for one in view.attempts if one.number == params.given(query.attempt)), last)
    partners = await context.read(_partners, context.store, view, chosen)
    owners = await context.read(_owners, context.store)
    names = {one.job: one.name for device in devices for one in device.residents}
    seen = visibility.sees(request, view.owner)
    row, _ = await find(context, str(view.id))
    log, next_offset, log_fault = await _log(context, view) if seen else ("", 0, "Its log is not shown to you.")
    about = start_in_words(view.expected_start, now)
    drawn, period = await _charts(request, view, chosen, partners, now) if chosen else ([], (now, now))
    live_numbers = view.live
    slow = live_numbers.slowdown if live_numbers else view.actual.slowdown
    return await page(
        request,
        "job",
        live,
        title=f"Job {view.id}",
        job=view,
        waiting=waiting,
        last=last,
        starts=about,
        left=time_left(view.started_at_unix, _usual(view.forecast), now) if view.state not in ENDED else "",
        why_there=_why_there(view.verdict) if view.verdict else None,
        why=why(view.verdict, devices, names, owners, now) if view.verdict and view.state in WAITING else None,
        slowdown=slow,
        strength=strength(slow),
        chosen=chosen,
        charts=drawn,
        period=period,
        compared=_compared(view, chosen),
        partners=partners,
        owners=owners,
        log=log,
        next_offset=next_offset,
        log_fault=log_fault,
        may_act=caller_of(request).manages(view.owner),
        reproduce=submit_command(row.record.submission, now, waits=view.state in WAITING) if seen else None,
        what_if=await what_if(request, row, query, live.view) if seen and view.state is JobState.PENDING else None,
    )


def _why_there(verdict: VerdictView) -> str:
    return calculation(verdict.rule, verdict.admitted, verdict.numbers) or verdict.sentence


@dataclass(frozen=True)
class Partner:
    """A job that shares or shared the device, and when (Unix seconds, until now where it still does)."""

    job: int
    attempt: int
    owner: str
    start: float
    end: float | None


def _partners(store: Store, view: JobView, last: AttemptView | None) -> list[Partner]:
    """The partners of an attempt, by the record. Blocks."""
    ids = sorted({*view.partners, *(last.actual.partners if last else ())})[:_PARTNERS_SHOWN]
    started = when(last.started_at) if last else None
    if last is None or started is None or not ids:
        return []
    over = when(last.ended_at) or float("inf")
    owners = {int(job): label.owner for job, label in store.labels([JobId(one) for one in ids]).items()}
    found = []
    for one in ids:
        for attempt in store.attempts(JobId(one)):
            period = _together(attempt, last.devices, started, over)
            if period is not None:
                found.append(Partner(one, attempt.number, owners.get(one, ""), *period))
    return sorted(found, key=lambda partner: partner.start)


def _together(
    attempt: AttemptRow, devices: Sequence[str], started: float, over: float
) -> tuple[float, float | None] | None:
    if attempt.started_at is None or not set(attempt.devices) & set(devices):
        return None
    start, end = max(started, attempt.started_at), min(over, attempt.ended_at or float("inf"))
    return (start, None if end == float("inf") else end) if start < end else None


def _owners(store: Store) -> dict[int, str]:
    labels = store.labels([attempt.job for attempt in store.live_attempts()])
    return {int(job): label.owner for job, label in labels.items()}


async def _log(context: ApiContext, view: JobView) -> tuple[str, int, str | None]:
    """(the end of the log, the offset after it, why it cannot be shown)."""
    if not view.attempt:
        return "", 0, None
    row, attempts = await find(context, str(view.id))
    try:
        log = JobLog(context, row.id, {attempt.number: attempt for attempt in attempts})
        chunk = await log.read(row.attempt, -LOG_SHOWN, LOG_SHOWN)
        if chunk is None:
            log.check_missing(row.attempt)
    except GpuqError as error:
        return "", 0, error.message
    return ("", 0, None) if chunk is None else (readable(chunk.data), chunk.next_offset, None)


async def _charts(
    request: web.Request, view: JobView, chosen: AttemptView, partners: Sequence[Partner], now: float
) -> tuple[list[Chart], Period]:
    """(the charts of an attempt, the time that they show)."""
    context = context_of(request)
    start = when(chosen.started_at)
    if start is None or not visibility.sees(request, view.owner):
        return [], (now, now)
    end = when(chosen.ended_at) or now
    shown = [(one.job, one.attempt) for one in partners if visibility.sees(request, one.owner)]

    def read() -> tuple[list[Point], dict[int, list[Point]]]:
        folder = context.settings.home.series
        return series.read(folder, view.id, chosen.number), {job: series.read(folder, job, n) for job, n in shown}

    points, of_partners = await context.run(read)
    shared = [(one.start, one.end or end) for one in partners]
    numbers = view.live if chosen.ended_at is None else None
    return charts(chosen, points, of_partners, numbers, shared, (start, end)), (start, end)


def _usual(forecast: ForecastView | None) -> float | None:
    return forecast.duration_p50_s if forecast else None


def _compared(view: JobView, last: AttemptView | None) -> list[Compared]:
    """Forecast against actual; while it runs, against what it uses now."""
    forecast = view.forecast or ForecastView()
    actual = last.actual if last else AttemptOutcome()
    lasted = None
    if view.started_at_unix is not None and view.ended_at_unix is not None:
        lasted = view.ended_at_unix - view.started_at_unix
    between = ""
    if actual.slowdown_low is not None and actual.slowdown_high is not None:
        between = f" ({slowdown(actual.slowdown_low)} to {slowdown(actual.slowdown_high)})"
    energy = None if actual.energy_joules is None else f"{actual.energy_joules / 3600:.3g} Wh"
    at_most = f", at most {gib(forecast.upper_memory_bytes)}" if forecast.upper_memory_bytes is not None else ""
    worst = f", at most {slowdown(forecast.upper_slowdown)}" if forecast.upper_slowdown is not None else ""
    late = f", nine in ten within {duration(forecast.duration_p90_s)}" if forecast.duration_p90_s is not None else ""
    memory, load, slow = (
        ("≤ " if actual.peak_memory_is_bound else "") + gib(actual.peak_memory_bytes),
        ("≤ " if actual.utilization_is_bound else "") + percent(actual.peak_utilization_pct),
        slowdown(actual.slowdown) + between,
    )
    if view.live is not None:
        memory, load = f"{gib(view.live.memory_bytes)} now", f"{percent(view.live.utilization_pct)} now"
        slow = f"{slowdown(view.live.slowdown)} so far" if view.live.slowdown is not None else slow
    rows = [
        Compared("Peak memory", gib(forecast.peak_memory_bytes) + at_most, memory),
        Compared("Peak load", expected_peak(forecast.peak_utilization_pct), load),
        Compared("Slowdown", slowdown(forecast.expected_slowdown) + worst, slow),
        Compared("May lose to others", *_account(view.live)),
        Compared("Time", duration(forecast.duration_p50_s) + late, duration(lasted)),
        Compared("Energy", "-", energy or "-"),
    ]
    return [row for row in rows if (row.forecast, row.actual) != ("-", "-")]


def _account(live: LiveNumbers | None) -> tuple[str, str]:
    """What it has earned, and what is left of that, within its slowdown budget."""
    account = live.slowdown_account if live else None
    if account is None:
        return "-", "-"
    if account.left_s is None:
        return f"budget of {slowdown(account.budget)}", "not known"
    left = f"{duration(-account.left_s)} over" if account.left_s < 0 else f"{duration(account.left_s)} left"
    return f"{duration(account.earned_s)}, budget of {slowdown(account.budget)}", left
