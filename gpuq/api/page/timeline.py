"""The page of the timeline: attempts as bars on their devices, stacked where they share, and what is predicted to come.

Bars are links where they are wide enough; the narrow ones of a lane are one path for each strength of slowdown. Of more devices
than fit, a row for each host says how many of its devices were in use. A part before and after the period is drawn too, so that
it can be dragged.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import nlargest

from aiohttp import web

from gpuq.adapters.store.row_types import DeviceMark, MarkKind, Run
from gpuq.api import visibility
from gpuq.api.context import ApiContext, context_of
from gpuq.api.contract import params
from gpuq.api.handlers.jobs import device_names
from gpuq.api.identity import caller_of
from gpuq.api.page.frame import STRENGTHS, page, strength
from gpuq.api.page.templates import slowdown
from gpuq.api.usage import end_state
from gpuq.core.state.attempt import Ending
from gpuq.core.state.device import Device
from gpuq.core.state.device_names import natural_order
from gpuq.core.state.job import JobState
from gpuq.messages.live import LiveView
from gpuq.messages.outcome import AttemptOutcome

DEVICES_SHOWN = 100
HOSTS_SHOWN = 200
BARS = 600
"""So many bars are links with a name, the widest ones."""
ROWS = 300
"""So many of them are in the table below."""
FUTURE = 0.25
"""The part of the period that is still to come, where it ends later than now."""
MARGIN = 25.0
"""So many percent of the period are drawn before and after it."""
LANE = 24
UNITS = 1000
"""So many units of a path are one percent."""
_KEPT_S = 1.0
_MAY_GO_ON_S = 150.0
_STARTS_SHOWN = 8
_LEAST = 0.15
_LINK_FROM = 0.6
_GAP, _JOINED = 0.1, 0.45
_TICKS_S = (5, 10, 60, 300, 600, 1800, 3600, 3 * 3600, 6 * 3600, 86400, 7 * 86400, 28 * 86400, 91 * 86400)
_TICKS = 8
_CELLS = 300
_MARK_HEIGHT = 16
"""Of the strip below the lanes of a device that has marks."""
_MARK_WIDTH = 1.3
"""Marks of a kind that are nearer than so many percent are one."""
_LETTERS = {MarkKind.BLINK: "B", MarkKind.XID: "X", MarkKind.LOWERED_CLOCKS: "T"}
_ENDS: dict[str | None, str] = {
    Ending.OUT_OF_MEMORY: "M",
    Ending.HOST_OUT_OF_MEMORY: "M",
    Ending.DEVICE_FAILED: "X",
    Ending.LOST: "L",
}


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
    mark: str = ""
    """A letter at its end; the legend of the page says what it means."""
    interval: str = ""
    """Of the measured slowdown; empty where it has none, as while the job runs."""
    fades: list[tuple[str, float, float]] = field(default_factory=list)
    ended_x: float | None = None
    """Percent at which it ended, where it is drawn wider than it lasted, to be seen at all."""


@dataclass(frozen=True)
class TimelineMark:
    """What was seen on a device, with its letter; marks that lie close together are one. `x` and `width` are percent."""

    letter: str
    x: float
    width: float
    start: float
    end: float
    texts: tuple[str, ...]


@dataclass(frozen=True)
class TimelineRow:
    """A device and its lanes, in which no two jobs overlap: the wide bars, and (class, path) of the others; `height` in pixels.
    Its marks are below the lanes.

    A row of a host has no lanes: its path is the share of its devices that were in use."""

    name: str
    kind: str
    height: int
    bars: list[tuple[float, Bar]] = field(default_factory=list)
    paths: list[tuple[str, str]] = field(default_factory=list)
    host: str | None = None
    marks: list[TimelineMark] = field(default_factory=list)


@dataclass(frozen=True)
class Drawn:
    """The rows, how many devices were found, and the bars for the table."""

    rows: list[TimelineRow]
    found: int
    hosts: int
    listed: list[tuple[str, Bar]]
    marks: list[tuple[str, TimelineMark]] = field(default_factory=list)
    """The latest marks, for the table."""


@dataclass(frozen=True)
class Period:
    """From `start` to `end`, Unix seconds."""

    start: float
    end: float

    def x(self, at: float) -> float:
        """Percent of the period, from one margin to the other."""
        return round(min(100.0 + MARGIN, max(-MARGIN, 100 * (at - self.start) / (self.end - self.start))), 3)

    def ticks(self) -> list[tuple[float, str]]:
        """Round local times, (percent, text)."""
        span = self.end - self.start
        step = next((step for step in _TICKS_S if span / step <= _TICKS), _TICKS_S[-1])
        offset = time.localtime(self.start).tm_gmtoff
        first = -((self.start + offset) // -step) * step - offset
        form = "%H:%M:%S" if step < 60 else "%H:%M" if step < 86400 else "%a %d %b"
        count = int(_TICKS * MARGIN / 100) + 1
        moments = (first + step * number for number in range(-count, _TICKS + count + 1))
        return [
            (self.x(at), time.strftime(form, time.localtime(at)))
            for at in moments
            if -MARGIN < self.x(at) < 100 + MARGIN
        ]


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
    names = await device_names(context, live.view)
    devices = await context.read(context.devices)
    word = query.device.casefold()
    named = [(names.of(one.id), one) for one in devices]
    found = [(name, one) for name, one in named if word in f"{name} {one.host} {one.type}".casefold()]
    found.sort(key=lambda pair: (pair[1].host, natural_order(pair[0])))
    seen = None if visibility.sees_all(request) else caller_of(request).user
    draw = partial(_draw, context, period, found, live.view, seen)
    kept = await context.kept.get(("timeline", query, seen), draw, for_s=_KEPT_S)
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
        drawn=kept.value if kept else None,
        starts=_lanes(_starts(live.view, period, now))[:_STARTS_SHOWN],
        margin=MARGIN,
        units=UNITS,
    )


def _draw(
    context: ApiContext, period: Period, found: Sequence[tuple[str, Device]], live: LiveView | None, seen: str | None
) -> Drawn:
    """The rows of these devices. With `seen`, only that user's jobs have names."""
    now, margin = context.now(), (period.end - period.start) * MARGIN / 100
    runs = [run for run in context.runs.since(period.start - margin) if run.started_at < period.end + margin]
    hosts = sorted({one.host for _, one in found})
    marks = _marks(
        context.store.device_marks(since=period.start - margin, until=period.end + margin), live, period, now
    )
    if len(found) > DEVICES_SHOWN and len(hosts) > 1:
        rows = _host_rows(hosts[:HOSTS_SHOWN], found, runs, period, now)
        return Drawn([_with_marks(row, _of_host(row, found, marks)) for row in rows], len(found), len(hosts), [])
    on: dict[str, list[Bar]] = defaultdict(list)
    shown = found[:DEVICES_SHOWN]
    ids = {one.id for _, one in shown}
    for run in runs:
        bar = _bar(run, live, period, now, sees=seen in (None, run.owner))
        for device in run.devices:
            if device in ids:
                on[device].append(bar)
    links = {
        id(bar) for bar in nlargest(BARS, (bar for bars in on.values() for bar in bars), key=lambda bar: bar.width)
    }
    rows = [_row(name, one.type, _lanes(on[one.id]), links) for name, one in shown]
    rows = [_with_marks(row, marks.get(one.id, [])) for row, (_, one) in zip(rows, shown, strict=True)]
    listed = [(name, bar) for name, one in shown for bar in on[one.id]]
    latest = nlargest(ROWS, ((row.name, mark) for row in rows for mark in row.marks), key=lambda pair: pair[1].start)
    return Drawn(rows, len(found), len(hosts), nlargest(ROWS, listed, key=lambda pair: pair[1].start), latest)


def _row(name: str, kind: str, lanes: Sequence[Sequence[Bar]], links: set[int]) -> TimelineRow:
    bars, paths = [], defaultdict(list)
    for number, lane in enumerate(lanes):
        y = number * LANE + 2
        narrow = []
        for bar in lane:
            if id(bar) in links and (bar.width >= _LINK_FROM or bar.fades):
                bars.append((float(y), bar))
            else:
                narrow.append(bar)
        for x, right, how, badly in _joined(narrow):
            left, width = round(x * UNITS), round((right - x) * UNITS)
            paths[f"bar-{how}"].append(f"M{left} {y + 10}h{width}")
            if badly:
                paths["ended-badly"].append(f"M{left} {y + 18}h{width}")
    height = max(1, len(lanes)) * LANE
    return TimelineRow(name, kind, height, bars, [(name, "".join(parts)) for name, parts in paths.items()])


def _marks(
    seen: Iterable[DeviceMark], live: LiveView | None, period: Period, now: float
) -> dict[str, list[tuple[MarkKind, TimelineMark]]]:
    """The marks of each device, one for each row of the record. Clocks that are lowered now are so until now: the record has the
    last minute of that later."""
    lowered = {
        (device.id, reason)
        for device in (live.devices if live else ())
        for reason in (device.vitals.throttling if device.vitals else None) or ()
    }
    found: dict[str, list[tuple[MarkKind, TimelineMark]]] = defaultdict(list)
    for one in seen:
        goes_on = now - one.until_at < _MAY_GO_ON_S and (one.device, one.detail) in lowered
        end = max(one.until_at, now) if one.kind is MarkKind.LOWERED_CLOCKS and goes_on else one.until_at
        left, right = period.x(one.from_at), period.x(end)
        mark = TimelineMark(_LETTERS[one.kind], left, round(right - left, 3), one.from_at, end, (_mark_text(one),))
        found[one.device].append((one.kind, mark))
    return found


def _mark_text(mark: DeviceMark) -> str:
    times = "" if mark.count == 1 else f" {mark.count:,} times"
    match mark.kind:
        case MarkKind.BLINK:
            return f"partner paused to measure job {mark.detail}{times}"
        case MarkKind.XID:
            return f"XID {mark.detail}{times}"
        case MarkKind.LOWERED_CLOCKS:
            return f"clocks lowered: {mark.detail.replace('_', ' ')}"


def _of_host(
    row: TimelineRow, found: Sequence[tuple[str, Device]], marks: Mapping[str, list[tuple[MarkKind, TimelineMark]]]
) -> list[tuple[MarkKind, TimelineMark]]:
    """The marks of a host's devices, each with the name of its device."""
    return [
        (kind, replace(mark, texts=tuple(f"{name}: {text}" for text in mark.texts)))
        for name, one in found
        if one.host == row.host
        for kind, mark in marks.get(one.id, [])
    ]


def _with_marks(row: TimelineRow, marks: Iterable[tuple[MarkKind, TimelineMark]]) -> TimelineRow:
    """The row with these marks; of each kind those that would lie on each other are one."""
    kept: list[TimelineMark] = []
    last: dict[MarkKind, int] = {}
    for kind, mark in sorted(marks, key=lambda pair: pair[1].start):
        place = last.get(kind)
        before = None if place is None else kept[place]
        if before is None or place is None or mark.x - (before.x + before.width) > _MARK_WIDTH:
            last[kind] = len(kept)
            kept.append(mark)
            continue
        right, end = max(before.x + before.width, mark.x + mark.width), max(before.end, mark.end)
        kept[place] = replace(before, width=round(right - before.x, 3), end=end, texts=(*before.texts, *mark.texts))
    return replace(row, marks=kept, height=row.height + _MARK_HEIGHT) if kept else row


def _joined(narrow: Iterable[Bar]) -> Iterator[tuple[float, float, str, bool]]:
    """(start, end, strength, whether one did not end well) of bars of a lane: those that look like one are one, which has
    the strongest slowdown of them."""
    now: tuple[float, float, str, bool] | None = None
    for bar in narrow:
        right = bar.x + bar.width
        if now is not None and bar.x - now[1] < _GAP and right - now[0] < _JOINED:
            now = (now[0], right, max(now[2], bar.strength, key=STRENGTHS.index), now[3] or bool(bar.remark))
            continue
        if now is not None:
            yield now
        now = (bar.x, right, bar.strength, bool(bar.remark))
    if now is not None:
        yield now


def _host_rows(
    hosts: Sequence[str], found: Sequence[tuple[str, Device]], runs: Iterable[Run], period: Period, now: float
) -> list[TimelineRow]:
    """A row for each host: the share of its devices that were in use, as a curve."""
    of: dict[str, str] = {one.id: one.host for _, one in found}
    counts: dict[str, int] = defaultdict(int)
    kinds: dict[str, set[str]] = defaultdict(set)
    for _, one in found:
        counts[one.host] += 1
        kinds[one.host].add(one.type)
    cells: dict[str, list[float]] = {host: [0.0] * _CELLS for host in hosts}
    width = (100 + 2 * MARGIN) / _CELLS
    for run in runs:
        left, right = (period.x(at) + MARGIN for at in (run.started_at, run.ended_at or now))
        first, last = int(left / width), min(_CELLS - 1, int(right / width))
        for device in run.devices:
            row = cells.get(of.get(device, ""), [])
            for cell in range(first, last + 1) if row else ():
                part = min(right, (cell + 1) * width) - max(left, cell * width)
                row[cell] += max(0.0, part / width)
    rows = []
    for host in hosts:
        points = []
        for number, busy in enumerate(cells[host]):
            y = round(LANE - 2 - (LANE - 4) * min(1.0, busy / counts[host]))
            points.append(f"H{round((number * width - MARGIN) * UNITS)}V{y}")
        edge = round((100 + MARGIN) * UNITS)
        area = f"M{-round(MARGIN * UNITS)} {LANE - 2}{''.join(points)}H{edge}V{LANE - 2}Z"
        rows.append(
            TimelineRow(f"{host} ({counts[host]})", ", ".join(sorted(kinds[host])), LANE, [], [("in-use", area)], host)
        )
    return rows


def _bar(run: Run, live: LiveView | None, period: Period, now: float, *, sees: bool) -> Bar:
    resident = live.resident(run.job) if live is not None and run.ended_at is None else None
    measured = resident.slowdown if resident else run.actual.slowdown if run.actual else None
    name = (run.name or "") if sees else ""
    text = "" if measured is None else slowdown(measured)
    x, right = period.x(run.started_at), period.x(now if run.ended_at is None else run.ended_at)
    state = None if run.ended_at is None else end_state(run)
    remark = "" if state in (None, JobState.COMPLETED) else str(state).lower().replace("_", " ")
    return Bar(
        run.job,
        name,
        " ".join(filter(None, (f"#{run.job}", text, f"({remark})" if remark else "", name[:40]))),
        strength(measured),
        x,
        round(max(right - x, _LEAST), 3),
        run.started_at,
        run.ended_at,
        text,
        remark,
        "P" if state is JobState.PREEMPTED else _ENDS.get(run.ending, ""),
        _interval(run.actual) if resident is None and run.actual else "",
        []
        if run.ended_at is not None
        else _fades(run.started_at, (run.duration_p50_s, run.duration_p90_s), period, now),
        right if run.ended_at is not None and right - x < _LEAST else None,
    )


def _interval(actual: AttemptOutcome) -> str:
    if actual.slowdown_low is None or actual.slowdown_high is None:
        return ""
    return f"{slowdown(actual.slowdown_low)} and {slowdown(actual.slowdown_high)}"


def _fades(
    start: float, predicted: tuple[float | None, float | None], period: Period, now: float
) -> list[tuple[str, float, float]]:
    """From now to the median of the predicted end, and from there to the time within which nine in ten end."""
    half, most = predicted
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
            note = "expected start" if live and live.starts_checked else "expected start, not yet checked"
            bars.append(Bar(job, "", f"#{job}", "unknown", left, width, half, most, "", note))
    return bars


def _lanes(bars: Iterable[Bar]) -> list[list[Bar]]:
    """Jobs that overlap in lanes of their own, each in the first lane that is free."""
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
    return max(
        [last.x + last.width if last.ended_x is None else last.ended_x, *(x + width for _, x, width in last.fades)]
    )
