"""Series of a job as lines of blocks, one per metric: `gpuq show --plot`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from statistics import fmean, median

from gpuq import format as fmt
from gpuq.cli.client import Record

_BLOCKS = "▁▂▃▄▅▆▇█"
_LABEL = 12
_RANGE = 24
_METRICS: tuple[tuple[str, str, Callable[[float | None], str]], ...] = (
    ("utilisation", "utilization_pct", fmt.percent),
    ("memory", "memory_bytes", fmt.gib),
    ("rate", "rate", fmt.rate),
    ("power", "power_watts", lambda value: fmt.watts(value) or fmt.UNKNOWN),
)
# Of the others nothing says what would be all of it.
_FULL = {"utilization_pct": 100.0}


def screen(series: Record, width: int) -> Iterator[str]:
    """A line per metric that is known, from the first point to the last: the least and the most stand behind it."""
    points: list[Record] = series["points"]
    if len(points) < 2:
        yield "  no series yet: a point is taken every ten seconds while the job runs"
        return
    parts = _parts(points, max(10, width - _LABEL - _RANGE - 6))
    for label, name, text in _METRICS:
        values = [_mean([point[name] for point in part if point[name] is not None]) for part in parts]
        known = [value for value in values if value is not None]
        if known:
            yield f"  {label:<{_LABEL}}{line(values, _FULL.get(name))}  {text(min(known))} to {text(max(known))}"
    partners = [max((len(point["partners"]) for point in part), default=0) for part in parts]
    if any(partners):
        marks = "".join(str(min(count, 9)) if count else "·" for count in partners)
        yield f"  {'partners':<{_LABEL}}{marks}  {', '.join(map(str, _all_partners(points)))}"
    first, last = fmt.local_time(points[0]["at_unix"]), fmt.local_time(points[-1]["at_unix"])
    yield f"  {'':<{_LABEL}}{first} to {last}"


def line(values: Sequence[float | None], full: float | None = None) -> str:
    """A block for each value, from 0 to `full`, by default the greatest; a space for one that is unknown."""
    most = full or max((value for value in values if value is not None), default=0.0) or 1.0
    blocks = (" " if value is None else _BLOCKS[min(7, max(0, int(8 * value / most)))] for value in values)
    return "".join(blocks)


def _parts(points: Sequence[Record], most: int) -> list[list[Record]]:
    """The points of each of at most `most` columns: columns are equally long in time, so that a gap is seen as one."""
    start, span_s = points[0]["at_unix"], points[-1]["at_unix"] - points[0]["at_unix"]
    step_s = median(after["at_unix"] - before["at_unix"] for before, after in pairwise(points))
    last = min(most - 1, round(span_s / step_s)) if step_s > 0 else 0
    found: list[list[Record]] = [[] for _ in range(last + 1)]
    for point in points:
        found[round(last * (point["at_unix"] - start) / (span_s or 1.0))].append(point)
    return found


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _all_partners(points: Sequence[Record]) -> list[int]:
    return sorted({partner for point in points for partner in point["partners"]})
