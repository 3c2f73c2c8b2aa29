"""The demo's arithmetic and tables: forecast against actual, packing saving, what was learned.

Arrives: jobs as `gpuq show --json` prints them, forecasts as `gpuq predict --json` does. Leaves: numbers and rich tables.
Pure; what is unknown stays unknown and is shown as a dash.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table

from gpuq.core import slowdown as slowdown_math

Json = Mapping[str, Any]
UNKNOWN = "–"


def duration(job: Json) -> float:
    """Seconds from the start of the job's process to its end."""
    return float(job["ended_at_unix"]) - float(job["started_at_unix"])


def time_together(jobs: Iterable[Json]) -> float:
    """Seconds from the first start to the last end."""
    spans = [(float(job["started_at_unix"]), float(job["ended_at_unix"])) for job in jobs]
    return max(end for _, end in spans) - min(start for start, _ in spans)


def packing_saving(together: Sequence[Json], alone: Sequence[Json]) -> float:
    """1 - time together / sum of the times alone, from recorded runs of the same work; `alone` is not empty."""
    saving = slowdown_math.packing_saving(time_together(together), [duration(job) for job in alone])
    assert saving is not None, "nothing ran alone"
    return saving


def overlap(job: Json, other: Json) -> float:
    """Seconds in which both ran; 0 or less is none."""
    start = max(float(job["started_at_unix"]), float(other["started_at_unix"]))
    return min(float(job["ended_at_unix"]), float(other["ended_at_unix"])) - start


def foreign_load(refused: Json | None, residents: Sequence[Json]) -> float:
    """Percent of the device that others used when a job was refused: committed, less what the resident was expected to use."""
    numbers = (refused or {}).get("verdict", {}).get("numbers", {})
    beside = [job for job in residents if str(job["id"]) == numbers.get("residents")]
    if numbers.get("committed_pct") is None or not beside:
        return 0.0
    expected = (beside[0].get("forecast") or {}).get("peak_utilization_pct") or 0.0
    return float(max(0.0, numbers["committed_pct"] - expected))


def narrow_table(title: str, left: Iterable[str], right: Iterable[str]) -> Table:
    """A table that fits 80 columns: no frame, numbers to the right."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for heading in left:
        table.add_column(heading, no_wrap=True)
    for heading in right:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def comparison(jobs: Sequence[Json], alone: Sequence[Json]) -> Table:
    """Forecast at launch against what was measured, four lines per job. `alone` are the earlier runs of the same work."""
    table = narrow_table("Forecast at launch against what was measured", ("job", ""), ("forecast", "measured"))
    for job in jobs:
        for place, row in enumerate(_comparison_rows(job, alone)):
            table.add_row(f"{job['id']} {job['name']}" if place == 0 else "", *row)
        table.add_section()
    return table


def _comparison_rows(job: Json, alone: Sequence[Json]) -> list[tuple[str, str, str]]:
    forecast, actual = job.get("forecast") or {}, job["actual"]
    bound = forecast.get("upper_memory_bytes")
    foretold = memory(forecast.get("peak_memory_bytes")) + (f" (≤ {memory(bound)})" if bound else "")
    beside = ", ".join(str(partner) for partner in _partners(actual))
    return [
        ("peak utilisation", percent(forecast.get("peak_utilization_pct")), percent(actual["peak_utilization_pct"])),
        ("peak memory", foretold, memory(actual["peak_memory_bytes"])),
        (
            f"slowdown beside {beside}" if beside else "slowdown",
            ratio(forecast.get("expected_slowdown")),
            slowdown(actual),
        ),
        ("steps/s", f"{number(_alone_rate(job, alone))} alone", _rate_now(actual)),
    ]


def _alone_rate(job: Json, alone: Sequence[Json]) -> float | None:
    """The rate of the earlier run of the same work: the act that had no partners at all."""
    return next((run["actual"]["alone_rate"] for run in alone if run["name"] == job["name"]), None)


def _rate_now(actual: Json) -> str:
    shared = actual["shared_rate"]
    return f"{number(actual['alone_rate'])} alone" if shared is None else f"{number(shared)} shared"


def _partners(actual: Json) -> list[object]:
    found = actual.get("partners") or []
    return [partner["job"] if isinstance(partner, Mapping) else partner for partner in found]


def learned(rows: Sequence[tuple[str, str, Json | None]]) -> Table:
    """What was forecast of the same command at different times: (command, when, forecast)."""
    table = narrow_table("How the forecast changed", ("", "asked"), ("util", "memory", "at most", "time"))
    table.add_column("evidence", no_wrap=True)
    for command, when, forecast in rows:
        known = forecast or {}
        table.add_row(
            command,
            when,
            percent(known.get("peak_utilization_pct")),
            memory(known.get("peak_memory_bytes")),
            memory(known.get("upper_memory_bytes")),
            seconds(known.get("duration_p50_s")),
            short_evidence(known),
        )
    return table


def short_evidence(forecast: Json) -> str:
    """The evidence without the name of the kind it is nearest to: that is a whole command line."""
    return str(forecast.get("evidence") or "none").partition(", nearest")[0].removeprefix("own history, ")


def changed(before: Json | None, after: Json | None) -> bool:
    """Whether the numbers differ, whatever model gave them."""
    keys = ("peak_utilization_pct", "peak_memory_bytes", "upper_memory_bytes", "duration_p50_s", "evidence")
    return any((before or {}).get(key) != (after or {}).get(key) for key in keys)


def slowdown(actual: Json) -> str:
    """The measured slowdown with its interval."""
    value, low, high = actual.get("slowdown"), actual.get("slowdown_low"), actual.get("slowdown_high")
    if value is None:
        return UNKNOWN
    return f"{value:.2f}" if low is None or high is None else f"{value:.2f} [{low:.2f}, {high:.2f}]"


def percent(value: float | None) -> str:
    """Percent of the device."""
    return UNKNOWN if value is None else f"{value:.0f}%"


def memory(value: float | None) -> str:
    """Bytes as GiB."""
    return UNKNOWN if value is None else f"{value / 2**30:.2f} GiB"


def ratio(value: float | None) -> str:
    """A slowdown."""
    return UNKNOWN if value is None else f"{value:.2f}"


def number(value: float | None) -> str:
    """Steps per second."""
    return UNKNOWN if value is None else f"{value:.1f}"


def seconds(value: float | None) -> str:
    """A duration."""
    return UNKNOWN if value is None else f"{value:.0f} s"
