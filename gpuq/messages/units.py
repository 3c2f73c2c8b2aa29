"""Numbers as text for people, with their units. None, for unknown, is shown as `-` and never as 0.

Shared by the command and the API. Standard library only, because the command loads it on every start.
"""

from __future__ import annotations

UNKNOWN = "-"


def gib(value: float | None, unit: str = " GiB") -> str:
    """`9.1 GiB`; MiB below a tenth of one, so that small jobs do not all read 0.0."""
    if value is None:
        return UNKNOWN
    if value < 2**30 / 10:
        return f"{value / 2**20:.0f}{unit.replace('G', 'M')}"
    number = value / 2**30
    return f"{number:.0f}{unit}" if number >= 100 else f"{number:.1f}{unit}"


def percent(value: float | None) -> str:
    """`54%` of 54.2."""
    return UNKNOWN if value is None else f"{value:.0f}%"


def slowdown(ratio: float | None) -> str:
    """`4%` of 1.04. Below 1 stays visible: measured noise is not hidden."""
    return UNKNOWN if ratio is None else f"{(ratio - 1) * 100:.0f}%".replace("-0%", "0%")


def rate(value: float | None) -> str:
    """`12.3 steps/s`."""
    return UNKNOWN if value is None else f"{value:.3g} steps/s"


def watts(value: float | None) -> str | None:
    """`250 W`; None where it is not known, so that its line is left out."""
    return None if value is None else f"{value:.0f} W"


def duration(seconds: float | None) -> str:
    """`0:42`, `1:02:03`, `2-01:02:03`: as Slurm writes it."""
    if seconds is None:
        return UNKNOWN
    whole = max(0, int(seconds))
    days, rest = divmod(whole, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, left = divmod(rest, 60)
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{left:02}"
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"


def about(seconds: float) -> str:
    """`40s`, `48m`, `1h40m`, `2d3h`: an estimate has no use for seconds."""
    minutes = round(seconds / 60)
    if seconds < 60:
        return f"{max(0, round(seconds))}s"
    if minutes < 60:
        return f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours < 24 else f"{hours // 24}d{hours % 24}h"
