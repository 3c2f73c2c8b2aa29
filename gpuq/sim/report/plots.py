"""The page's pictures: devices over time, distributions, and slowdown against saving; each with a caption."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from gpuq.format import share, two_places
from gpuq.sim.report import svg
from gpuq.sim.report.plot_data import POINTS, DeviceTimeline, PlotData
from gpuq.sim.report.summary import Summary

_WIDTH = 880
_COLOURS = 8
_LANE = 11
# The frame of a distribution.
_LEFT, _TOP, _BASE = 46, 10, 270
# Below this no job was slowed: the rest is floating point.
_NONE = 1.0005
_REST = "var(--rest)"
_DASHES = ("", "7 4", "2 3")
# A label takes about this much, in the page's font.
_LETTER = 7.0


@dataclass(frozen=True, slots=True)
class Colours:
    """The CSS variable and dash of each candidate's colour: `main` stands out, the baseline is grey."""

    of: Mapping[str, str]
    dash: Mapping[str, str]

    @classmethod
    def of_all(cls, names: Sequence[str], main: str, baseline: str) -> Colours:
        """Colours by name, the same in all pictures."""
        others = [name for name in names if name not in (main, baseline)]
        of = {name: f"var(--c{1 + place % (_COLOURS - 1)})" for place, name in enumerate(others)}
        # Lines are dashed where colours repeat.
        dash = {name: _DASHES[min(place // (_COLOURS - 1), len(_DASHES) - 1)] for place, name in enumerate(others)}
        return cls({**of, baseline: "var(--other)", main: "var(--c0)"}, dash)


def gantts(found: Sequence[PlotData]) -> list[svg.Picture]:
    """Devices over time, one picture for each run, on one scale; kinds have the same colours in all."""
    until = max((plot_data.until for plot_data in found), default=0.0)
    times: dict[str, float] = {}
    for bar in (bar for plot_data in found for row in plot_data.rows for bar in row.bars):
        times[bar.kind] = times.get(bar.kind, 0.0) + bar.end - bar.start
    # The kinds with the most device time have colours of their own.
    kinds = sorted(times, key=lambda kind: (-times[kind], kind))[: _COLOURS - 1]
    colours = {kind: f"var(--c{place})" for place, kind in enumerate(kinds)}
    return [_gantt(plot_data, until, colours) for plot_data in found if until > 0]


def _gantt(found: PlotData, until: float, colours: Mapping[str, str]) -> svg.Picture:
    """One row for each device, with as many lanes as it had jobs at once."""
    left = 12 + _LETTER * max((len(_short(row.device)) for row in found.rows), default=4)
    x = svg.AxisScale(0.0, until, left, _WIDTH - 20)
    lanes = max((row.lanes for row in found.rows), default=1)
    height = max(2 * _LANE, lanes * _LANE) + 5
    base = 6 + height * len(found.rows)
    parts = svg.bottom_axis(x, svg.time_ticks(0, until), 4, base, svg.write_time)
    for place, row in enumerate(found.rows):
        parts += _device(row, x, 6 + place * height, height - 5, colours)
    shared = sum(bar.end - bar.start for row in found.rows for bar in row.bars if bar.shared)
    total = sum(bar.end - bar.start for row in found.rows for bar in row.bars)
    says = f"{found.policy}: {len(found.rows)} devices over {two_places(until)}"
    says += f"; {share(shared / total if total else None)} of the jobs' time beside a partner."
    legend = _legend([*((kind, colour, "") for kind, colour in colours.items()), ("other kinds", _REST, "")], base + 34)
    return svg.picture(_WIDTH, base + 24 + legend[1], [*parts, *legend[0]], says)


def _device(
    row: DeviceTimeline, x: svg.AxisScale, top: float, height: float, colours: Mapping[str, str]
) -> list[Element]:
    parts = [
        svg.text(x.start - 7, top + height / 2 + 4, _short(row.device), anchor="end", cls="soft"),
        svg.rect(x.start, top, x.end - x.start, height, "var(--track)"),
    ]
    for bar in row.bars:
        lanes = row.lanes if bar.shared else 1
        lane_height = height / lanes
        offset = bar.lane * lane_height if bar.shared else 0.0
        words = f"job {bar.job}, {bar.kind}, {two_places(bar.end - bar.start)}"
        colour = colours.get(bar.kind, _REST)
        parts.append(
            svg.rect(x(bar.start), top + offset, x(bar.end) - x(bar.start) - 0.5, lane_height - 0.5, colour, words)
        )
    return parts


def times(found: Sequence[PlotData], what: str, colours: Colours) -> list[svg.Picture]:
    """The share of jobs that had at most this completion or waiting time, if any had; time on a logarithmic scale."""
    lines = _lines(found, what)
    if not lines:
        return []
    low = max(1.0, min(next((value for value in points if value > 0), points[-1]) for _, points in lines))
    high = max(low * 10, *(points[-1] for _, points in lines))
    x = svg.AxisScale(low, high, _LEFT, _WIDTH - 16, log=True)
    axis = svg.bottom_axis(x, svg.time_ticks(low, high, log=True), _TOP, _BASE, svg.write_time)
    word = {"completions": "completion", "waits": "waiting"}[what]
    medians = ", ".join(f"{name} {two_places(points[POINTS // 2])}" for name, points in lines)
    says = f"Share of jobs with at most this {word} time. Medians: {medians}."
    return [_distribution(lines, x, axis, says, colours)]


def slowdowns(found: Sequence[PlotData], budget: float, colours: Colours) -> list[svg.Picture]:
    """The share of jobs that were slowed at most this much, of the candidates that let jobs share, if there are any."""
    lines = [(name, points) for name, points in _lines(found, "slowdowns") if points[-1] > _NONE]
    if not lines:
        return []
    high = max(budget * 1.05, *(points[-1] for _, points in lines))
    x = svg.AxisScale(1.0, high, _LEFT, _WIDTH - 16)
    axis = svg.bottom_axis(x, svg.even_ticks(1.0, high, 8), _TOP, _BASE, lambda tick: f"{tick:.2f}")
    axis.append(svg.line(x(budget), _TOP, x(budget), _BASE, "budget"))
    most = ", ".join(f"{name} {points[round(0.95 * (POINTS - 1))]:.2f}" for name, points in lines)
    says = (
        f"Share of jobs that took at most so many times as long as alone; the line is the budget. 95% of jobs: {most}."
    )
    return [_distribution(lines, x, axis, says, colours)]


def _lines(found: Sequence[PlotData], what: str) -> list[tuple[str, Sequence[float]]]:
    return [(plot_data.policy, points) for plot_data in found if (points := getattr(plot_data, what))]


def _distribution(
    lines: Sequence[tuple[str, Sequence[float]]], x: svg.AxisScale, axis: Sequence[Element], says: str, colours: Colours
) -> svg.Picture:
    y = svg.AxisScale(0, 1, _BASE, _TOP)
    parts = [*svg.left_axis(y, (0, 0.25, 0.5, 0.75, 1), x.start, x.end, share), *axis]
    for name, points in lines:
        along = [(x(value), y(place / (POINTS - 1))) for place, value in enumerate(points)]
        thick = 2.6 if colours.of[name] in ("var(--c0)", "var(--other)") else 1.6
        parts.append(svg.path(along, colours.of[name], dash=colours.dash.get(name, ""), width=thick))
    legend, depth = _legend([(name, colours.of[name], colours.dash.get(name, "")) for name, _ in lines], _BASE + 34)
    return svg.picture(_WIDTH, _BASE + 30 + depth, [*parts, *legend], says)


def frontier(found: Sequence[Summary], colours: Colours) -> list[svg.Picture]:
    """Each candidate, if there are two, by what it cost its jobs (95th percentile of slowdowns) and saved of device time."""
    known = [
        (one.policy, one.median.slowdown_p95, one.median.packing_saving)
        for one in found
        if one.median.slowdown_p95 is not None and one.median.packing_saving is not None
    ]
    if len(known) < 2:
        return []
    points = [(name, slowdown or 1.0, saving or 0.0) for name, slowdown, saving in known]
    height, left = 340, 56
    highest = max(slowdown for _, slowdown, _ in points)
    savings = [saving for _, _, saving in points]
    x = svg.AxisScale(
        min(1.0, *(slowdown for _, slowdown, _ in points)), 1 + max(0.05, (highest - 1) * 1.08), left, _WIDTH - 130
    )
    y = svg.AxisScale(min(0.0, *savings), max(0.05, max(savings) * 1.1), height - 44, 12)
    parts = svg.left_axis(y, svg.even_ticks(y.low, y.high), left, x.end, share)
    parts += svg.bottom_axis(x, svg.even_ticks(x.low, x.high, 7), y.end, y.start, lambda tick: f"{tick:.2f}")
    best = _pareto(points)
    parts.append(svg.path([(x(slowdown), y(saving)) for _, slowdown, saving in best], "var(--line)", width=3))
    taken: list[float] = []
    for name, slowdown, saving in sorted(points, key=lambda point: (point[2], point[1])):
        at = y(saving) + 4
        while any(abs(at - other) < 13 for other in taken):
            at -= 13
        taken.append(at)
        parts.append(svg.dot(x(slowdown), y(saving), colours.of[name], name))
        parts.append(svg.text(x(slowdown) + 10, at, name))
    parts.append(
        svg.text((x.start + x.end) / 2, height - 6, "slowdown, 95th percentile of jobs", anchor="middle", cls="soft")
    )
    names = ", ".join(name for name, _, _ in best)
    says = (
        "Device time saved against exclusive running, and the slowdown that it cost. No candidate saved more for less than "
        f"{names}."
    )
    return [svg.picture(_WIDTH, height, parts, says)]


def _pareto(points: Sequence[tuple[str, float, float]]) -> list[tuple[str, float, float]]:
    """The Pareto front: least slowdown first, each saving more than all before it."""
    best: list[tuple[str, float, float]] = []
    for point in sorted(points, key=lambda one: (one[1], -one[2], one[0])):
        if not best or point[2] > best[-1][2] + 1e-12:
            best.append(point)
    return best


def _legend(entries: Sequence[tuple[str, str, str]], top: float) -> tuple[list[Element], float]:
    """(names with their colours, in rows; their height)."""
    parts: list[Element] = []
    x, y = 12.0, top + 10
    for name, colour, dash in entries:
        wide = 34 + _LETTER * len(name)
        if x + wide > _WIDTH and x > 12:
            x, y = 12.0, y + 18
        parts.append(svg.path([(x, y - 4), (x + 16, y - 4)], colour, dash=dash, width=4))
        parts.append(svg.text(x + 21, y, name))
        x += wide
    return parts, y - top + 12


def _short(device: str) -> str:
    """The end of a device's name; of a GPU's UUID the first eight digits."""
    name = device.rpartition("GPU-")[2]
    return name[:8] if name != device else device if len(device) <= 16 else "…" + device[-15:]
