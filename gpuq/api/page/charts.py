"""Charts of an attempt over time: utilisation, memory within its forecast, rate and power, and when it had partners.

They are SVG, drawn here from the series files: so a page needs no library of charts and can be read without scripts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from gpuq.api.contract.schema_jobs import AttemptView, ForecastView
from gpuq.api.series import EVERY_S, Point, thinned
from gpuq.format import gib, percent, rate, watts
from gpuq.messages.live import LiveNumbers

POINTS = 360
"""A chart has at most so many points: it is a few hundred pixels wide."""
_BOX = 1000
_GAP = 3.5
_HEADROOM = 1.12
_OUTSIDE = 20
"""A level of so many times what was measured would press the curve to the floor: it is only said in words."""

Period = tuple[float, float]
"""From and to, Unix seconds."""


@dataclass(frozen=True)
class Mark:
    """A line across a chart at `y` percent from the top, and its words in the legend; None for a level above the chart."""

    name: str
    y: float | None
    text: str


@dataclass(frozen=True)
class Line:
    """A curve: its class, its path in a box of 1000 by 1000, and its words in the legend."""

    name: str
    path: str
    text: str


@dataclass(frozen=True)
class Chart:
    """Numbers over time. `value` is what it has now, or had at most; `top` is what the upper edge stands for, the lower one is 0;
    `band` is (top, height) and `periods` are (left, width), all in percent."""

    name: str
    value: str
    top: str
    lines: list[Line]
    band: tuple[float, float] | None
    band_text: str
    marks: list[Mark]
    periods: list[tuple[float, float]]


def charts(
    last: AttemptView,
    points: Sequence[Point],
    partners: Mapping[int, Sequence[Point]],
    numbers: LiveNumbers | None,
    shared: Iterable[Period],
    within: Period,
) -> list[Chart]:
    """The charts of an attempt; those of which nothing is known are left out.

    `points` are its own, `partners` those of other jobs by their id; `numbers` are the live ones of an attempt that runs, and
    `shared` when it had a partner.
    """
    start, end = within
    span = max(end - start, 1.0)
    periods = []
    for since, until in shared:
        left, right = max(start, since), min(end, until)
        if left < right:
            periods.append((round(100 * (left - start) / span, 2), round(100 * (right - left) / span, 2)))
    forecast, actual = last.forecast or ForecastView(), last.actual
    promised = last.promised_memory_bytes[0] if last.promised_memory_bytes else None
    drawing = _Drawing(thinned(points, POINTS), numbers, within, periods)
    present, slow = (numbers.rate, numbers.slowdown) if numbers else (None, None)
    alone = actual.alone_rate or (present * slow if present and slow else None)
    others = [
        (f"memory of #{job}", [(one.at, one.memory_bytes) for one in thinned(of, POINTS)])
        for job, of in partners.items()
    ]
    found = [
        drawing.chart(
            "Memory",
            "memory_bytes",
            gib,
            {
                "promise": (promised, "limit: the memory it was promised"),
                "measured": (actual.peak_memory_bytes, "peak"),
            },
            (forecast.peak_memory_bytes, forecast.upper_memory_bytes),
            others,
        ),
        drawing.chart(
            "Utilisation",
            "utilization_pct",
            percent,
            {
                "promise": (forecast.peak_utilization_pct, "predicted peak"),
                "measured": (actual.peak_utilization_pct, "peak"),
            },
        ),
        drawing.chart(
            "Rate", "rate", rate, {"promise": (alone, "alone"), "measured": (actual.shared_rate, "with partners")}
        ),
        drawing.chart("Power of its devices", "power_watts", lambda value: watts(value) or "-", {}),
    ]
    return [chart for chart in found if chart is not None]


@dataclass(frozen=True)
class _Drawing:
    points: list[Point]
    numbers: LiveNumbers | None
    within: Period
    periods: list[tuple[float, float]]

    def chart(
        self,
        name: str,
        field: str,
        write: Callable[[float | None], str],
        levels: Mapping[str, tuple[float | None, str]],
        edges: tuple[float | None, float | None] = (None, None),
        others: Sequence[tuple[str, Sequence[tuple[float, float | None]]]] = (),
    ) -> Chart | None:
        """The chart of one field of the points; None where nothing was measured: what it was promised is not what it used."""
        present = getattr(self.numbers, field, None)
        own = [(point.at, getattr(point, field)) for point in self.points]
        if present is not None:
            own.append((self.within[1], present))
        values = [value for _, value in own if value is not None]
        measured, word = levels.get("measured", (None, ""))
        if not values and not measured:
            return None
        of_others = [value for _, points in others for _, value in points if value is not None]
        seen = max([*values, *of_others, *([measured] if measured else [])], default=0.0)
        most = _OUTSIDE * seen or float("inf")
        wanted = [number for number in (*edges, *(number for number, _ in levels.values())) if number]
        top = _HEADROOM * (max([seen, *(number for number in wanted if number <= most)]) or 1.0)

        def height(number: float) -> float | None:
            return round(100 - 100 * number / top, 2) if number <= most else None

        lines = [Line("partner", path(points, self.within, top), words) for words, points in others]
        lines.append(Line("series", path(own, self.within, top), name.lower()))
        expected, upper = edges
        band, text = None, ""
        if expected is not None and upper is not None:
            text = f"forecast: {write(expected)}, at most {write(upper)}"
            if (above := height(upper)) is not None and (below := height(expected)) is not None:
                band = (above, max(1.0, round(below - above, 2)))
        return Chart(
            name,
            f"now {write(present)}" if present is not None else f"{word} {write(measured)}" if measured else "",
            write(top),
            [line for line in lines if line.path],
            band,
            text,
            [Mark(kind, height(n), f"{words}: {write(n)}") for kind, (n, words) in levels.items() if n],
            self.periods,
        )


def path(points: Sequence[tuple[float, float | None]], within: Period, top: float) -> str:
    """The points (moment, value) as an SVG path in a box of 1000 by 1000; it is broken where nothing was measured for a while."""
    start, end = within
    known = [(at, value) for at, value in points if value is not None and start <= at <= end]
    steps = [after - before for (before, _), (after, _) in pairwise(known)]
    longest = _GAP * max(EVERY_S, median(steps)) if steps else EVERY_S
    found = []
    before = float("-inf")
    for at, value in known:
        x, y = _BOX * (at - start) / max(end - start, 1.0), _BOX - _BOX * value / top
        # A line of no length is a dot: a point that stands alone is seen.
        found.append(f"L{x:.0f} {y:.0f}" if at - before <= longest else f"M{x:.0f} {y:.0f}h0")
        before = at
    return "".join(found)
