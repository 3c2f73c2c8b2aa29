"""Figures as text for people. Unknown is `-`, never 0."""

from __future__ import annotations

UNKNOWN = "-"


def duration(seconds: float | None) -> str:
    """`850ms`, `42s`, `12m`, `3h20`, `2d04h`: at most two units, which is enough to compare."""
    if seconds is None:
        return UNKNOWN
    if seconds < 0.9995:
        return f"{1000 * seconds:.3g}ms" if seconds else "0s"
    if seconds < 99.5:
        return f"{seconds:.3g}s" if seconds < 9.95 else f"{seconds:.0f}s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes}m"
    if minutes < 48 * 60:
        return f"{minutes // 60}h{minutes % 60:02}"
    hours = round(seconds / 3600)
    return f"{hours // 24}d{hours % 24:02}h" if hours < 100 * 24 else f"{hours // 24}d"


def share(value: float | None) -> str:
    """`12%`, `0.4%`."""
    if value is None:
        return UNKNOWN
    percent = 100 * value
    return f"{percent:.1f}%" if 0 < abs(percent) < 9.95 else f"{percent:.0f}%"


def count(value: float | None) -> str:
    """`1,234`; one decimal below a hundred where it is no whole number."""
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if value >= 100 or value == round(value) else f"{value:.1f}"


def ratio(value: float | None) -> str:
    """`1.18`."""
    return UNKNOWN if value is None else f"{value:.2f}" if abs(value) < 99.5 else f"{value:,.0f}"


def hours(value: float | None) -> str:
    """`1,234 h`, `3.2 h`, `0.004 h`."""
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


BY_UNIT = {
    "s": duration,
    "share": share,
    "count": count,
    "ratio": ratio,
    "h": hours,
    "kWh": hours,
    "money": hours,
}
"""How a figure of each unit is written."""
