"""Facts in sections: a label, its value, wrapped under itself. Shared by `show`, `explain`, `predict` and `model`."""

from __future__ import annotations

from collections.abc import Iterable

from gpuq.cli import format as fmt
from gpuq.cli.client import Record

_LABEL = 18


def facts(pairs: Iterable[tuple[str, str | None]], width: int) -> list[str]:
    """Aligned `label  value` lines; pairs without a value are left out."""
    lines = []
    for label, value in pairs:
        if value is None:
            continue
        parts = fmt.wrapped(value, width - _LABEL - 2)
        lines.append(f"  {label:<{_LABEL - 2}}  {parts[0]}")
        lines += [f"{'':<{_LABEL + 2}}{part}" for part in parts[1:]]
    return lines


def section(title: str, lines: list[str], colour: bool) -> list[str]:
    """A titled block; nothing for an empty one."""
    return ["", fmt.paint(title, "1", colour), *lines] if lines else []


def forecast_facts(forecast: Record | None, width: int) -> list[str]:
    """What is expected of a job, and what that rests on."""
    values = forecast or {}
    if all(values.get(name) is None for name in ("peak_utilization_pct", "upper_memory_bytes", "duration_p50_s")):
        return facts([("forecast", "none: nothing like it has run yet")], width)
    return facts(
        [
            ("peak utilisation", fmt.percent(values.get("peak_utilization_pct"))),
            (
                "peak memory",
                with_upper(fmt.gib(values.get("peak_memory_bytes")), fmt.gib(values.get("upper_memory_bytes"))),
            ),
            (
                "slowdown",
                with_upper(fmt.slowdown(values.get("expected_slowdown")), fmt.slowdown(values.get("upper_slowdown"))),
            ),
            (
                "duration",
                with_upper(
                    fmt.duration(values.get("duration_p50_s")), fmt.duration(values.get("duration_p90_s")), "p90"
                ),
            ),
            ("power", fmt.watts(values.get("power_w"))),
            ("evidence", fmt.clean(values.get("evidence") or "none")),
            ("model", fmt.clean(values["model_version"]) if values.get("model_version") else None),
        ],
        width,
    )


def with_upper(value: str, upper: str, name: str = "at most") -> str:
    """`5.2 GiB (at most 6.0 GiB)`."""
    if value == upper == fmt.UNKNOWN:
        return "unknown"
    return value if upper == fmt.UNKNOWN else f"{value} ({name} {upper})"
