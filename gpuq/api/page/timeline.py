"""The page of the timeline: attempts as bars on their devices, stacked where they share, and what is predicted to come."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from aiohttp import web

from gpuq.adapters.store.contract import AttemptRow, JobRow, Store
from gpuq.api import visibility
from gpuq.api.context import context_of
from gpuq.api.contract import params
from gpuq.api.contract.schema import ForecastView
from gpuq.api.handlers.jobs import device_names
from gpuq.api.page.frame import page, strength
from gpuq.api.page.templates import slowdown
from gpuq.api.views import forecast_view
from gpuq.core.state.device_names import natural_order
from gpuq.core.state.job import ENDED, JobId
from gpuq.messages.live import LiveView

DEVICES_SHOWN = 100
ATTEMPTS_SHOWN = 3000
FUTURE = 0.25
"""The part of the period that is still to come, where it ends later than now."""
_STARTS_SHOWN = 8
_TICKS_S = (60, 300, 600, 1800, 3600, 3 * 3600, 6 * 3600, 86400, 7 * 86400)
_TICKS = 8


@dataclass(frozen=True)
class Bar:
    """A job on a device. `x` and `width` are percent of the period; `fades` are the parts (class, x, width) still to come."""

    job: int
    name: str
    label: str
    strength: str
    x: float
    width: float
    start: float
    end: float | None
    slowdown: str
    remark: str
    fades: list[tuple[str, float, float]] = field(default_factory=list)


@dataclass(frozen=True)
class DeviceRow:
    """A device and its lanes: attempts that overlap are in different ones."""

    name: str
    kind: str
    lanes: list[list[Bar]]


@dataclass(frozen=True)
class Period:
    """From `start` to `end`, Unix seconds."""

    start: float
    end: float

    def x(self, at: float) -> float:
        """Percent of the period, within it."""
        return round(min(100.0, max(0.0, 100 * (at - self.start) / (self.end - self.start))), 3)

    def ticks(self) -> list[tuple[float, str]]:
        """Round local times, (percent, text)."""
        span = self.end - self.start
        step = next((step for step in _TICKS_S if span / step <= _TICKS), _TICKS_S[-1])
        offset = time.localtime(self.start).tm_gmtoff
        first = -((self.start + offset) // -step) * step - offset
        form = "%H:%M" if step < 86400 else "%a %d %b"
        moments = (first + step * number for number in range(_TICKS + 1))
        return [(self.x(at), time.strftime(form, time.localtime(at))) for at in moments if at < self.end]


async def timeline(request: web.Request) -> web.Response:
    """The page of the timeline."""
    context = context_of(request)
    query = params.query(request, params.TimelineQuery)
    live = await context.live.read()
    now = context.now()
    span = query.hours * 3600
    wanted = params.given(query.until)
    end = now + FUTURE * span if wanted is None else float(wanted)
    period = Period(end - span, end)
    rows, cut = await context.read(_attempts, context.store, period)
    names = await device_names(context, live.view)
    devices = await context.read(context.devices)
    named = sorted(
        ((names.of(one.id), one) for one in devices), key=lambda pair: (pair[1].host, natural_order(pair[0]))
    )
    word = query.device.casefold()
    found = [(name, one) for name, one in named if word in f"{name} {one.host} {one.type}".casefold()]
    bars: dict[str, list[Bar]] = defaultdict(list)
    for job, attempt in rows:
        sees = visibility.sees(request, job.record.owner)
        bar = _bar(job, attempt, live.view, period, now, names.memory_of(attempt.devices), sees=sees)
        for device in attempt.devices:
            bars[device].append(bar)
    shown = [DeviceRow(name, one.type, _lanes(bars[one.id])) for name, one in found[:DEVICES_SHOWN]]
    return await page(
        request,
        "timeline",
        live,
        query=query,
        until=wanted,
        span=span,
        period=period,
        ticks=period.ticks(),
        now_x=period.x(now) if period.start < now < period.end else None,
        rows=shown,
        found=len(found),
        cut=cut,
        starts=_lanes(_starts(live.view, period, now))[:_STARTS_SHOWN],
    )


def _attempts(store: Store, period: Period) -> tuple[list[tuple[JobRow, AttemptRow]], bool]:
    """(attempts within the period with their jobs, whether there are more). Blocks."""
    ended = store.finished_attempts(since=period.start, limit=ATTEMPTS_SHOWN + 1)
    running = [attempt for attempt in store.live_attempts() if attempt.started_at is not None]
    jobs = {row.id: row for row in (store.jobs(ids=[JobId(one.job) for one in running]) if running else [])}
    together = [*ended[:ATTEMPTS_SHOWN], *((jobs[one.job], one) for one in running if one.job in jobs)]
    within = [(job, one) for job, one in together if one.started_at is not None and one.started_at < period.end]
    return within, len(ended) > ATTEMPTS_SHOWN


def _bar(  # noqa: PLR0913 - what a bar is drawn from
    job: JobRow,
    attempt: AttemptRow,
    live: LiveView | None,
    period: Period,
    now: float,
    memory: int | None,
    *,
    sees: bool,
) -> Bar:
    start, over = attempt.started_at or attempt.launched_at, attempt.ended_at
    resident = live.resident(job.id) if live is not None and over is None else None
    measured = resident.slowdown if resident else attempt.actual.slowdown if attempt.actual else None
    name = (job.record.submission.name or " ".join(job.record.submission.command)) if sees else ""
    text = "" if measured is None else slowdown(measured)
    x, right = period.x(start), period.x(over if over is not None else now)
    forecast = forecast_view((attempt.launch.get("attempt") or {}).get("forecast"), memory) or ForecastView()
    remark = ""
    if over is not None and attempt.exit_code != 0:
        last = attempt.number == job.attempt and job.state in ENDED
        remark = job.state.lower().replace("_", " ") if last else attempt.stop_reason or attempt.ending or ""
    return Bar(
        job.id,
        name,
        " ".join(filter(None, (f"#{job.id}", text, f"({remark})" if remark else "", name[:40]))),
        strength(measured),
        x,
        round(max(right - x, 0.15), 3),
        start,
        over,
        text,
        remark,
        [] if over is not None else _fades(start, forecast, period, now),
    )


def _fades(start: float, forecast: ForecastView, period: Period, now: float) -> list[tuple[str, float, float]]:
    """From now to the median of the predicted end, and from there to the time within which nine in ten end."""
    half, most = forecast.duration_p50_s, forecast.duration_p90_s
    if half is None or most is None:
        return []
    edges = [period.x(now), period.x(max(now, start + half)), period.x(max(now, start + most))]
    parts = (("likely", edges[0], edges[1]), ("fade", edges[1], edges[2]))
    return [(kind, left, round(right - left, 3)) for kind, left, right in parts if right > left]


def _starts(live: LiveView | None, period: Period, now: float) -> list[Bar]:
    """Waiting jobs at their expected starts, from the median to the 90th percentile."""
    found = sorted((live.starts if live else {}).items(), key=lambda item: item[1])
    bars = []
    for job, (half, most) in found[:200]:
        left, right = period.x(max(now, half)), period.x(max(now, most))
        if half < period.end and right > period.x(now):
            width = round(max(right - left, 0.15), 3)
            bars.append(Bar(job, "", f"#{job}", "unknown", left, width, half, most, "", "expected start"))
    return bars


def _lanes(bars: Iterable[Bar]) -> list[list[Bar]]:
    """Bars that overlap in lanes of their own, each in the first lane that is free."""
    lanes: list[list[Bar]] = []
    for bar in sorted(bars, key=lambda bar: (bar.x, bar.job)):
        free = next((lane for lane in lanes if _right(lane) <= bar.x), None)
        if free is None:
            lanes.append([bar])
        else:
            free.append(bar)
    return lanes


def _right(lane: Sequence[Bar]) -> float:
    last = lane[-1]
    return max([last.x + last.width, *(x + width for _, x, width in last.fades)])
