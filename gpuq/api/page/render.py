"""The page as HTML: devices with the jobs on them, the queue with reasons, recently ended jobs.

A pure function of `Page`. Everything that users wrote is escaped. Bars are SVG with attributes, so that the content security
policy needs no exception for inline styles.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

from gpuq.api.contract.schema import DeviceView, ForecastView, JobLine, ResidentView
from gpuq.api.live import Live
from gpuq.core.state.job import ACTIVE, ENDED, JobState
from gpuq.format import duration, gib, percent

_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="/static/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/static/page.css">
<script src="/static/page.js" defer></script>
</head>
"""


_COLOURS = 8
_PLAIN_HEAD = _HEAD.format(title="gpuq").replace('<script src="/static/page.js" defer></script>\n', "")


@dataclass(frozen=True)
class Waiting:
    """A waiting job and the sentence why it waits."""

    line: JobLine
    reason: str


@dataclass(frozen=True)
class Page:
    """Everything the page shows."""

    now: float
    live: Live
    counts: Mapping[JobState, int]
    devices: list[DeviceView]
    waiting: list[Waiting]
    recent: list[JobLine]


def render(page: Page) -> str:
    """The HTML document."""
    running = sum(page.counts.get(state, 0) for state in ACTIVE)
    pending = page.counts.get(JobState.PENDING, 0)
    return (
        _HEAD.format(title=f"gpuq: {running} running, {pending} waiting")
        + '<body>\n<a class="skip" href="#devices">Skip to the devices</a>\n'
        + _header(page, running, pending)
        + f"<main>\n{_devices(page)}{_queue(page, pending)}{_recent(page)}</main>\n</body>\n</html>\n"
    )


def login_page(sentence: str) -> str:
    """The page for a browser without the cookie: `sentence`, and a form for the token."""
    return (
        _PLAIN_HEAD
        + f'<body><main class="login"><h1>gpuq</h1><p role="status">{escape(sentence)}</p>'
        + '<form method="post" action="/login"><label for="token">Token</label>'
        + '<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>'
        + '<button type="submit">Open the page</button></form>'
        + "<p><code>gpuq url</code> prints an address with the token in it, <code>gpuq open</code> opens it. The token itself "
        + "is the line in <code>$GPUQ_HOME/token</code>: by default <code>~/.local/state/gpuq/token</code>, of a gpuq under "
        + "systemd <code>/var/lib/gpuq/token</code>.</p></main></body></html>\n"
    )


def welcome() -> str:
    """A page that leads on to `/` at once. The browser sends its new cookie, because the navigation comes from our own page."""
    refresh = '<meta http-equiv="refresh" content="0; url=/">\n</head>'
    return _PLAIN_HEAD.replace("</head>", refresh) + '<body><p><a href="/">gpuq</a></p></body></html>\n'


# --- header --------------------------------------------------------------------------------------------------------


def _header(page: Page, running: int, pending: int) -> str:
    held = page.counts.get(JobState.HELD, 0)
    ended = sum(page.counts.get(state, 0) for state in ENDED)
    facts = [(running, "running"), (pending, "waiting"), (held, "held"), (ended, "ended")]
    counts = "".join(f"<li><b>{number:,}</b> {name}</li>" for number, name in facts if number or name != "held")
    word, good = _health(page.live)
    mark = "good" if good else "bad"
    return (
        f'<header><h1>gpuq</h1><ul class="counts">{counts}</ul>'
        f'<p class="health {mark}" role="status"><span class="dot" aria-hidden="true"></span>{escape(word)}</p>'
        "</header>\n"
    )


def _health(live: Live) -> tuple[str, bool]:
    if not live.redis_up:
        return "Redis does not answer: live numbers are missing, submissions are still taken", False
    if live.view is None:
        return "The dispatcher is silent: live numbers are missing, submissions are still taken", False
    policy = live.view.dispatcher.policy
    if policy is not None and policy.fault is not None:
        return f"live, but the policy {policy.chosen} is replaced by {policy.serving}: {policy.fault.reason}", False
    unwell = sum(device.unwell is not None for device in live.view.devices)
    if unwell:
        return f"live, but {unwell:,} device{'s get' if unwell > 1 else ' gets'} no new jobs", False
    return "live", True


# --- devices -------------------------------------------------------------------------------------------------------


def _devices(page: Page) -> str:
    cards = "".join(_card(device) for device in page.devices)
    body = f'<div class="cards">{cards}</div>' if cards else '<p class="empty">No device has reported yet.</p>'
    return f'<section aria-labelledby="devices"><h2 id="devices" tabindex="-1">Devices</h2>{body}</section>\n'


def _card(device: DeviceView) -> str:
    residents = "".join(_resident(one, shade) for one, shade in zip(device.residents, _shades(device), strict=True))
    idle = "No job runs here." if device.read_at else "No worker reports this device now."
    rows = f"<ul>{residents}</ul>" if residents else f'<p class="empty">{idle}</p>'
    count = len(device.residents)
    tag = f'<span class="tag">{"alone" if count else "idle"}</span>'
    if count > 1:
        tag = f'<span class="tag share">{count} share</span>'
    elif device.foreign_memory_bytes:
        tag = '<span class="tag bad">foreign process</span>'
    wrong = "unwell" if device.unwell else None if device.read_at else "silent"
    mark = f' <span class="tag bad">{wrong}</span>' if wrong else ""
    return (
        f'<article class="card" tabindex="0" aria-label="Device {escape(device.name)}" title="{escape(device.id)}">'
        f"<h3><span>{escape(device.name)}</span>{tag}{mark}</h3>"
        f'<p class="sub">{escape(device.kind)} · {escape(device.host)}</p>{_remarks(device)}'
        f"{_utilization_meter(device)}{_memory_meter(device)}{rows}</article>"
    )


def _remarks(device: DeviceView) -> str:
    """Remarks: why it gets no new jobs, why its clocks are lowered, and the errors that its driver reported."""
    remarks = [("bad", f"Gets no new jobs: {device.unwell}")] if device.unwell else []
    if device.throttling:
        remarks.append(("", "Runs at lower clocks: " + ", ".join(device.throttling).replace("_", " ")))
    if device.xids:
        counts = ", ".join(f"XID {xid}: {count:,}" for xid, count in device.xids.items())
        remarks.append(("", f"Errors of the driver so far: {counts}"))
    return "".join(f'<p class="remark {mark}">{escape(text)}</p>' for mark, text in remarks)


def _resident(resident: ResidentView, shade: str) -> str:
    forecast = resident.forecast or ForecastView()
    facts = _fact("memory", gib(resident.memory_bytes), f"{gib(forecast.peak_memory_bytes)} predicted")
    facts += _fact("load", percent(resident.utilization_pct), f"{percent(forecast.peak_utilization_pct)} predicted")
    rate = "–" if resident.rate is None else f"{resident.rate:.1f}/s"
    facts += _fact("steps", rate, "" if resident.steps is None else f"{resident.steps:,} done")
    if resident.partners:
        measured, expected = _slowdown(resident.slowdown), _slowdown(resident.expected_slowdown)
        facts += _fact("slowdown", measured, f"{expected} predicted")
    partners = ", ".join(f"#{partner}" for partner in resident.partners)
    company = f'<span class="with">with {partners}</span>' if partners else ""
    name = escape(resident.name or "unnamed")
    return (
        f'<li><p><span class="swatch {shade}" aria-hidden="true"></span><b>#{resident.job}</b> '
        f'<span class="jobname">{name}</span>{company}</p><dl class="facts">{facts}</dl></li>'
    )


def _fact(name: str, now: str, beside: str) -> str:
    return f'<div><dt>{name}</dt><dd><b>{now}</b><span class="of">{beside}</span></dd></div>'


# --- bars: stacked by job, with a ghost bar for what was predicted; empty without a reading ------------------------------


def _shades(device: DeviceView) -> list[str]:
    """A colour class for each resident: by its id, so that it does not change, and different for all on one device."""
    taken: list[int] = []
    for resident in device.residents:
        number = resident.job % _COLOURS
        while number in taken and len(taken) < _COLOURS:
            number = (number + 1) % _COLOURS
        taken.append(number)
    return [f"c{number}" for number in taken]


def _utilization_meter(device: DeviceView) -> str:
    """Current utilisation, stacked by job; the ghost is the sum of the predicted peaks."""
    used = device.utilization_pct
    parts = [(shade, r.utilization_pct or 0.0) for r, shade in zip(device.residents, _shades(device), strict=True)]
    known = sum(width for _, width in parts)
    if used is not None and used > known:
        parts.append(("other", used - known))
    peaks = [r.forecast.peak_utilization_pct if r.forecast else None for r in device.residents]
    peak = None if not peaks or None in peaks else sum(p for p in peaks if p is not None)
    now = "unknown" if used is None else f"{used:.0f}%"
    note = "" if not peaks else "peaks not known yet" if peak is None else f"predicted peaks together {peak:.0f}%"
    return _meter("Utilisation", now, parts, peak, note)


def _memory_meter(device: DeviceView) -> str:
    """Current memory, stacked by job; the ghost is the promised memory."""
    total = device.total_memory_bytes
    sizes = [r.memory_bytes or 0 for r in device.residents]
    parts = [(shade, 100 * size / total) for size, shade in zip(sizes, _shades(device), strict=True)] if total else []
    known = sum(sizes)
    used = device.used_memory_bytes
    if used is not None and used > known and total:
        parts.append(("other", 100 * (used - known) / total))
    promised = device.promised_memory_bytes
    ghost = None if not promised or not total else 100 * promised / total
    now = f"{'unknown' if used is None else gib(used)} of {gib(total)}"
    note = f"{gib(promised)} promised" if promised else ""
    if device.foreign_memory_bytes:
        note = ", ".join(filter(None, (note, f"{gib(device.foreign_memory_bytes)} foreign")))
    return _meter("Memory", now, parts, ghost, note)


def _meter(name: str, now: str, parts: list[tuple[str, float]], ghost: float | None, note: str) -> str:
    """A name, the value of now, the bar, and a note. Parts and ghost in percent of the bar; values beyond 100 are cut off."""
    drawn, start = [], 0.0
    for shade, width in parts:
        shown = max(0.0, min(width, 100.0 - start))
        if shown > 0:
            drawn.append(f'<rect class="{shade}" x="{start:.2f}%" y="0" width="{shown:.2f}%" height="100%"/>')
        start += shown
    if ghost is not None:
        drawn.insert(0, f'<rect class="ghost" x="0" y="0" width="{min(ghost, 100.0):.2f}%" height="100%"/>')
        drawn.append(f'<rect class="peak" x="{min(ghost, 99.5):.2f}%" y="0" width="2" height="100%"/>')
    return (
        f'<div class="meter"><span class="name">{name}</span><span class="now">{escape(now)}</span>'
        f'<svg class="bar" role="img" aria-label="{name} {now}" width="100%" height="14">{"".join(drawn)}</svg>'
        f'<span class="note">{escape(note)}</span></div>'
    )


# --- tables --------------------------------------------------------------------------------------------------------


def _queue(page: Page, pending: int) -> str:
    rows = (
        (
            str(index) if waiting.line.state is JobState.PENDING else "held",
            f"<b>#{waiting.line.id}</b>",
            _name(waiting.line),
            escape(waiting.line.owner),
            duration(page.now - waiting.line.submitted_at_unix),
            escape(waiting.reason),
        )
        for index, waiting in enumerate(page.waiting, 1)
    )
    heads = ("Place", "Job", "Name", "Owner", "Waiting for", "Why")
    table = _table(heads, rows, wide=5) if page.waiting else '<p class="empty">No job waits.</p>'
    more = pending - sum(waiting.line.state is JobState.PENDING for waiting in page.waiting)
    rest = f'<p class="empty">and {more:,} more</p>' if more > 0 else ""
    return f'<section aria-labelledby="queue"><h2 id="queue">Queue</h2>{table}{rest}</section>\n'


def _recent(page: Page) -> str:
    rows = (
        (
            f"<b>#{line.id}</b>",
            _name(line),
            f'<span class="state {line.state.value.lower()}">{line.state.value}</span>',
            escape(line.device_name or "–"),
            duration(_lasted(line)),
            _measured_over_predicted(percent, line, "peak_utilization_pct"),
            _measured_over_predicted(gib, line, "peak_memory_bytes"),
            _measured_over_predicted(_slowdown, line, "slowdown", "expected_slowdown"),
        )
        for line in page.recent
    )
    heads = ("Job", "Name", "State", "Device", "Ran for", "Peak load", "Peak memory", "Slowdown")
    table = _table(heads, rows, wide=1) if page.recent else '<p class="empty">Nothing has ended yet.</p>'
    note = '<p class="legend">measured, and below it what was predicted before the start</p>' if page.recent else ""
    return f'<section aria-labelledby="recent"><h2 id="recent">Ended lately</h2>{note}{table}</section>\n'


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]], wide: int) -> str:
    """A table that scrolls on a narrow screen; column number `wide` takes the remaining width."""
    head = "".join(f'<th scope="col"{_wide(index, wide)}>{name}</th>' for index, name in enumerate(heads))
    body = "".join(
        "<tr>" + "".join(f"<td{_wide(index, wide)}>{cell}</td>" for index, cell in enumerate(row)) + "</tr>"
        for row in rows
    )
    return f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _wide(index: int, wide: int) -> str:
    return ' class="wide"' if index == wide else ""


def _name(line: JobLine) -> str:
    text = line.name or " ".join(line.command) or "(not shown)"
    return f'<span class="jobname" title="{escape(text[:500])}">{escape(text[:80])}</span>'


def _lasted(line: JobLine) -> float | None:
    if line.started_at_unix is None or line.ended_at_unix is None:
        return None
    return line.ended_at_unix - line.started_at_unix


def _measured_over_predicted(write: Any, line: JobLine, measured: str, predicted: str | None = None) -> str:
    """A cell: the measured value, and below it the predicted one."""
    prediction = getattr(line.forecast, predicted or measured) if line.forecast else None
    return f'{write(getattr(line.actual, measured))}<span class="of">{write(prediction)}</span>'


def _slowdown(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}×"
