"""Pictures of axes, lines, bars and text, which take their colours from the page's CSS variables, light or dark.

Their text is for an inline `<svg>`, with no script, font or link. A plotting library would be a dependency of the plain
installation, and its files are larger and do not follow the page's colours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element, SubElement, tostring

from gpuq.format import two_places


@dataclass(frozen=True, slots=True)
class AxisScale:
    """From values to pixels. A `log` scale needs `low` above 0; values outside are drawn at the edge."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The pixel of a value."""
        low, high, at = (self._along(x) for x in (self.low, self.high, value))
        share = (at - low) / (high - low) if high > low else 0.5
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)

    def _along(self, value: float) -> float:
        return math.log10(max(value, self.low)) if self.log else value


@dataclass(frozen=True, slots=True)
class Picture:
    """The text of an `<svg>`, and what it shows in words: its caption, and its description for screen readers."""

    svg: str
    says: str


def picture(width: int, height: float, shapes: Sequence[Element], says: str) -> Picture:
    """These shapes as a picture."""
    whole = Element("svg", {"viewBox": f"0 0 {width} {height:.0f}", "role": "img", "aria-label": says})
    whole.extend(shapes)
    return Picture(tostring(whole, encoding="unicode"), says)


def text(x: float, y: float, words: str, *, anchor: str = "start", cls: str = "") -> Element:
    """Text at a point."""
    shape = _shape("text", {"x": x, "y": y, "text-anchor": anchor, "class": cls})
    shape.text = words
    return shape


def line(x1: float, y1: float, x2: float, y2: float, cls: str = "grid") -> Element:
    """A straight line."""
    return _shape("line", {"x1": x1, "y1": y1, "x2": x2, "y2": y2, "class": cls})


def path(points: Sequence[tuple[float, float]], colour: str, *, dash: str = "", width: float = 2) -> Element:
    """A line through points; `dash` holds the lengths of its parts and gaps."""
    steps = " ".join(f"{'L' if place else 'M'}{x:.1f} {y:.1f}" for place, (x, y) in enumerate(points))
    style = f"stroke:{colour}"
    return _shape("path", {"d": steps, "fill": "none", "style": style, "stroke-width": width, "stroke-dasharray": dash})


def rect(x: float, y: float, width: float, height: float, colour: str, title: str = "") -> Element:
    """A filled box; `title` shows when the pointer is on it."""
    size = {"width": f"{max(width, 0.4):.2f}", "height": f"{height:.1f}"}
    return _shape("rect", {"x": f"{x:.2f}", "y": y, **size, "rx": "1", "style": f"fill:{colour}"}, title)


def dot(x: float, y: float, colour: str, title: str) -> Element:
    """A point; `title` shows when the pointer is on it."""
    return _shape("circle", {"cx": x, "cy": y, "r": 5.5, "style": f"fill:{colour}"}, title)


def _shape(tag: str, attributes: Mapping[str, float | str], title: str = "") -> Element:
    """Numbers are pixels, to a tenth; empty attributes are left out."""
    written = {name: value if isinstance(value, str) else f"{value:.1f}" for name, value in attributes.items()}
    shape = Element(tag, {name: value for name, value in written.items() if value})
    if title:
        SubElement(shape, "title").text = title
    return shape


def bottom_axis(
    x: AxisScale, ticks: Sequence[float], top: float, base: float, write: Callable[[float], str]
) -> list[Element]:
    """Ticks under the picture, with grid lines up to its top."""
    marks = [line(x(tick), top, x(tick), base) for tick in ticks]
    return [*marks, *(text(x(tick), base + 16, write(tick), anchor="middle", cls="soft") for tick in ticks)]


def left_axis(
    y: AxisScale, ticks: Sequence[float], left: float, right: float, write: Callable[[float], str]
) -> list[Element]:
    """Ticks beside the picture, with grid lines to its right end."""
    marks = [line(left, y(tick), right, y(tick)) for tick in ticks]
    return [*marks, *(text(left - 7, y(tick) + 4, write(tick), anchor="end", cls="soft") for tick in ticks)]


def even_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers from low to high: steps of 1, 2, 2.5 or 5 times a power of ten."""
    span = high - low
    if span <= 0:
        return [low]
    rough = span / about
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


_TIMES = (
    *(1, 3, 10, 30, 60, 180, 600, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600),
    *(86_400 * days for days in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)),
)
_MOST_TICKS = 9
_ROUND_TIMES = tuple(
    unit * number
    for unit, numbers in ((1, (1, 2, 5, 10, 20, 30)), (60, (1, 2, 5, 10, 20, 30)), (3600, (1, 2, 4, 6, 12)))
    for number in numbers
) + tuple(86_400 * number for number in (1, 2, 5, 10, 20, 50, 100, 200, 500))


def time_ticks(low: float, high: float, *, log: bool = False) -> list[float]:
    """Round times from low to high, in seconds."""
    if log:
        found = [float(tick) for tick in _TIMES if low <= tick <= high]
        return found[:: math.ceil(len(found) / _MOST_TICKS)] if found else [low, high]
    step = next((step for step in _ROUND_TIMES if step >= (high - low) / 8), _ROUND_TIMES[-1])
    return [float(number * step) for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def write_time(seconds: float) -> str:
    """A tick of time: `40s`, `1m20`, `6h`, `2d`."""
    for unit, letter in ((86_400, "d"), (3600, "h"), (60, "m")):
        if seconds >= unit and seconds % unit == 0:
            return f"{seconds / unit:.0f}{letter}"
    return f"{seconds // 60:.0f}m{seconds % 60:02.0f}" if seconds > 60 else two_places(seconds)
