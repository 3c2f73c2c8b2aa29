"""The page of the prediction model: what it promised beside what was used, whether it still holds, and its versions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

from aiohttp import web

from gpuq.adapters.store.row_types import Run
from gpuq.api.context import ApiContext, context_of
from gpuq.api.handlers.shadow import DAY_S
from gpuq.api.page.charts import Chart, Line, Mark, path
from gpuq.api.page.frame import page

DAYS = 28
KEPT_S = 60.0
_STATUS_KEPT_S = 10.0
_BINS = 56
_VERSIONS_SHOWN = 10


@dataclass(frozen=True)
class Held:
    """How the forecasts of some days held: of `promised` runs, `beyond` used more memory than they were promised; of `timed`,
    so many ended before the median and before the 90th percentile of their predicted time."""

    charts: list[Chart]
    start: float
    end: float
    promised: int
    beyond: int
    timed: int
    before_half: int
    before_most: int


async def model(request: web.Request) -> web.Response:
    """The page of the model."""
    context = context_of(request)
    live = await context.live.read()
    held = await context.kept.get(("held",), partial(_held, context), for_s=KEPT_S)
    shelf = context.models
    status = await context.kept.get(("shelf",), shelf.status, for_s=_STATUS_KEPT_S) if shelf else None
    versions: list[dict[str, Any]] = [
        one for one in (status.value.get("versions", []) if status else []) if isinstance(one, dict)
    ]
    return await page(
        request,
        "model",
        live,
        held=held.value if held else None,
        days=DAYS,
        drift=live.view.drift if live.view else None,
        starts=live.view.start_accuracy if live.view else None,
        serving=status.value.get("serving") if status else None,
        problem=status.value.get("problem") if status else None,
        versions=versions[:_VERSIONS_SHOWN],
    )


def _held(context: ApiContext) -> Held:
    end = context.now()
    start = end - DAYS * DAY_S
    runs = [run for run in context.runs.since(start) if run.ended_at is not None]
    memory = [
        (run.ended_at or 0.0, run.actual.peak_memory_bytes / run.promised_bytes)
        for run in runs
        if run.promised_bytes and run.actual and run.actual.peak_memory_bytes and not run.actual.peak_memory_is_bound
    ]
    # A run that did not end by itself says nothing of how long it takes.
    whole = [run for run in runs if run.ending == "exited" and run.exit_code == 0 and run.duration_p90_s is not None]
    first = min((run.ended_at or end for run in runs), default=start)
    within = (max(start, first - 1), end)
    half = [
        (run.ended_at or 0.0, float(_lasted(run) <= run.duration_p50_s))
        for run in whole
        if run.duration_p50_s is not None
    ]
    most = [(run.ended_at or 0.0, float(_lasted(run) <= (run.duration_p90_s or 0.0))) for run in whole]
    charts = [
        _chart(
            "Memory used, of what was promised",
            within,
            1.25,
            [
                ("partner", "the most", _binned(memory, within, max)),
                ("series", "median", _binned(memory, within, median)),
            ],
            [(1.0, "promise", "the promise")],
        ),
        _chart(
            "Ended before the predicted time",
            within,
            1.0,
            [
                ("partner", "before the 90th percentile; meant to be 90%", _binned(most, within, _mean)),
                ("series", "before the median; meant to be 50%", _binned(half, within, _mean)),
            ],
            [(0.9, "promise", "90%"), (0.5, "measured", "50%")],
        ),
    ]
    return Held(
        [chart for chart in charts if chart.lines],
        *within,
        promised=len(memory),
        beyond=sum(ratio > 1.0 for _, ratio in memory),
        timed=len(whole),
        before_half=round(sum(value for _, value in half)),
        before_most=round(sum(value for _, value in most)),
    )


def _lasted(run: Run) -> float:
    return (run.ended_at or run.started_at) - run.started_at


def _chart(
    name: str,
    within: tuple[float, float],
    top: float,
    curves: Iterable[tuple[str, str, Sequence[tuple[float, float]]]],
    marks: Iterable[tuple[float, str, str]],
) -> Chart:
    lines = [Line(kind, path(points, within, top), words) for kind, words, points in curves]
    levels = [Mark(kind, 100 - 100 * level / top, words) for level, kind, words in marks]
    return Chart(name, "", f"{top:.0%}", [line for line in lines if line.path], None, "", levels, [])


def _binned(values: Iterable[tuple[float, float]], within: tuple[float, float], of: Any) -> list[tuple[float, float]]:
    """`of` the values in each part of the period, at the middle of the part; parts without a value are left out."""
    start, end = within
    width = (end - start) / _BINS
    bins: dict[int, list[float]] = {}
    for at, value in values:
        bins.setdefault(min(_BINS - 1, int((at - start) / width)), []).append(value)
    return [(start + (number + 0.5) * width, min(of(found), 1.25)) for number, found in sorted(bins.items())]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
