"""The first page: every device on a line, with the jobs that share it; the head of the queue; what ended lately."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import groupby

from aiohttp import web

from gpuq.adapters.store.row_types import LineRow
from gpuq.api import visibility
from gpuq.api.context import ApiContext, context_of
from gpuq.api.contract.schema import DeviceView, ResidentView
from gpuq.api.contract.schema_jobs import JobLine
from gpuq.api.handlers.jobs import device_names, jobs_page, waiting_order
from gpuq.api.handlers.system import device_list
from gpuq.api.page.frame import page, shades, strength
from gpuq.api.page.queue import waiting_row
from gpuq.api.page.why import time_left
from gpuq.api.views import job_line
from gpuq.core.state.device_names import DeviceNames
from gpuq.core.state.job import ENDED, JobId, JobState
from gpuq.format import when

_WAITING_SHOWN = 20
_RECENT_SHOWN = 15


@dataclass(frozen=True)
class UsageBar:
    """A bar: parts as (colour class, start, width) in percent of it, and where the promise or the predicted peak ends."""

    parts: list[tuple[str, float, float]]
    mark: float | None


@dataclass(frozen=True)
class Resident:
    """A job on a device. `slowdown` is measured, or else `expected`; both None for a job without partners."""

    view: ResidentView
    shade: str
    owner: str | None
    ran_s: float | None
    left: str
    slowdown: float | None
    expected: float | None
    strength: str


@dataclass(frozen=True)
class DeviceLine:
    """One line of the first page."""

    view: DeviceView
    residents: list[Resident]
    memory: UsageBar
    load: UsageBar
    remarks: list[str]


async def overview(request: web.Request) -> web.Response:
    """The first page."""
    context = context_of(request)
    live = await context.live.read()
    order = (await waiting_order(context))[:_WAITING_SHOWN]
    names = await device_names(context, live.view)
    devices = await device_list(context, live.view, partial(visibility.sees, request))
    waiting, recent, owners = await context.read(_rows, context, names, [JobId(job) for job in order])
    now = context.now()
    lines = [_line(device, owners, now) for device in devices]
    groups = [(*key, list(found)) for key, found in groupby(lines, key=lambda one: (one.view.kind, one.view.host))]
    return await page(
        request,
        "overview",
        live,
        title="Devices",
        groups=groups,
        waiting=[waiting_row(request, row, names, place, live.view) for place, row in enumerate(waiting, 1)],
        recent=[visibility.job(request, line) for line in recent],
    )


def _rows(
    context: ApiContext, names: DeviceNames, order: list[JobId]
) -> tuple[list[LineRow], list[JobLine], dict[int, str]]:
    """(the first waiting jobs in the dispatcher's order, recently ended jobs, owners of running jobs). Blocks."""
    store = context.store
    rank = {job: index for index, job in enumerate(order)}
    pending = store.lines(states=[JobState.PENDING], **({"ids": order} if order else {"limit": _WAITING_SHOWN}))
    pending.sort(key=lambda row: (rank.get(row.id, len(rank)), row.id))
    ended, starts = jobs_page(store, {"states": sorted(ENDED), "limit": _RECENT_SHOWN, "newest_first": True})
    recent = [job_line(row, starts.get(row.id, ()), None, names) for row in ended]
    labels = store.labels([attempt.job for attempt in store.live_attempts()])
    owners = {int(job): label.owner for job, label in labels.items()}
    return pending, recent, owners


def _line(device: DeviceView, owners: dict[int, str], now: float) -> DeviceLine:
    tones = shades([one.job for one in device.residents])
    residents = [_resident(one, tone, owners, now) for one, tone in zip(device.residents, tones, strict=True)]
    remarks = [f"Gets no new jobs: {device.unwell}"] if device.unwell else []
    if device.drained:
        remarks.append(f"Drained: {device.drained}")
    if device.no_starts:
        remarks.append(f"Gets no new jobs, its host can start none: {device.no_starts}")
    if device.throttling:
        remarks.append("Runs at lower clocks: " + ", ".join(device.throttling).replace("_", " "))
    if device.xids:
        remarks.append("Errors of the driver so far: " + ", ".join(f"XID {x}: {n:,}" for x, n in device.xids.items()))
    return DeviceLine(device, residents, _memory(device, tones), _load(device, tones), remarks)


def _resident(one: ResidentView, shade: str, owners: dict[int, str], now: float) -> Resident:
    started = when(one.started_at)
    ran = None if started is None else now - started
    left = time_left(started, one.forecast.duration_p50_s if one.forecast else None, now)
    shared = bool(one.partners)
    measured, expected = (one.slowdown, one.expected_slowdown) if shared else (None, None)
    return Resident(one, shade, owners.get(one.job), ran, left, measured, expected, strength(measured or expected))


def _load(device: DeviceView, tones: list[str]) -> UsageBar:
    """Utilisation of now by job; the mark is the sum of the predicted peaks."""
    parts = [(tone, one.utilization_pct or 0.0) for one, tone in zip(device.residents, tones, strict=True)]
    peaks = [one.forecast.peak_utilization_pct if one.forecast else None for one in device.residents]
    known = [peak for peak in peaks if peak is not None]
    return _meter(parts, device.utilization_pct, sum(known) if known and len(known) == len(peaks) else None)


def _memory(device: DeviceView, tones: list[str]) -> UsageBar:
    """Memory of now by job; the mark is the promised memory."""
    whole = device.total_memory_bytes
    if not whole:
        return UsageBar([], None)
    pairs = zip(device.residents, tones, strict=True)
    parts = [(tone, 100 * (one.memory_bytes or 0) / whole) for one, tone in pairs]
    used, promised = device.used_memory_bytes, device.promised_memory_bytes
    return _meter(parts, None if used is None else 100 * used / whole, 100 * promised / whole if promised else None)


def _meter(parts: list[tuple[str, float]], used: float | None, mark: float | None) -> UsageBar:
    """What is used beyond the jobs' parts is drawn as foreign; values beyond 100% are cut off."""
    known = sum(width for _, width in parts)
    if used is not None and used > known:
        parts = [*parts, ("other", used - known)]
    drawn, start = [], 0.0
    for shade, width in parts:
        shown = round(max(0.0, min(width, 100.0 - start)), 2)
        if shown:
            drawn.append((shade, round(start, 2), shown))
        start += shown
    return UsageBar(drawn, None if mark is None else round(min(mark, 99.5), 2))
