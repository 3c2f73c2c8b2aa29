"""Quantities as text for people: bytes, percentages, ratios, durations, moments. Used by the command, the page and reports.

An unknown value (None) is written `-`, never 0. Times are Unix seconds, memory is bytes. Standard library only, and nothing that
is slow to import: `gpuq queue` starts through here.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` costs every start of the command some milliseconds
    from typing import Any

UNKNOWN = "-"


# --- memory, shares, ratios ----------------------------------------------------------------------------------------


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


def expected_peak(value: float | None) -> str:
    """A forecast of a peak utilisation; 0 in words, since who submits such a job may not know it."""
    return "0%: its runs used none of a device" if value == 0 else percent(value)


def share(value: float | None) -> str:
    """`12%` of 0.12; one decimal below 10%, as in `0.4%`."""
    if value is None:
        return UNKNOWN
    percentage = 100 * value
    return f"{percentage:.1f}%" if 0 < abs(percentage) < 9.95 else f"{percentage:.0f}%"


def slowdown(ratio: float | None) -> str:
    """`4%` of 1.04. Ratios below 1 stay visible as negative percentages: measurement noise is not hidden."""
    return UNKNOWN if ratio is None else f"{(ratio - 1) * 100:.0f}%".replace("-0%", "0%")


def ratio(value: float | None) -> str:
    """`1.18`; above 99.5 without decimals."""
    return UNKNOWN if value is None else f"{value:.2f}" if abs(value) < 99.5 else f"{value:,.0f}"


def count(value: float | None) -> str:
    """`1,234`; one decimal below a hundred where the value is no whole number."""
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if value >= 100 or value == round(value) else f"{value:.1f}"


def hours(value: float | None) -> str:
    """`1,234`, `3.2`, `0.04`: hours, or kilowatt-hours, to three places; `<0.01` of less than is worth a number."""
    if value is None:
        return UNKNOWN
    if 0 < abs(value) < 0.01:
        return "<0.01" if value > 0 else ">-0.01"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def rate(value: float | None) -> str:
    """`12.3 steps/s`."""
    return UNKNOWN if value is None else f"{value:.3g} steps/s"


def watts(value: float | None) -> str | None:
    """`250 W`; None for None, so that the whole line is left out."""
    return None if value is None else f"{value:.0f} W"


# --- durations and moments -----------------------------------------------------------------------------------------


def duration(seconds: float | None) -> str:
    """`0:42`, `1:02:03`, `2-01:02:03`: a measured time, as Slurm writes it."""
    if seconds is None:
        return UNKNOWN
    whole = max(0, int(seconds))
    days, rest = divmod(whole, 86400)
    hour, rest = divmod(rest, 3600)
    minutes, left = divmod(rest, 60)
    if days:
        return f"{days}-{hour:02}:{minutes:02}:{left:02}"
    return f"{hour}:{minutes:02}:{left:02}" if hour else f"{minutes}:{left:02}"


def about(seconds: float) -> str:
    """`40s`, `48m`, `1h40m`, `2d3h`: an estimate, rounded because it is not known to the second."""
    minutes = round(seconds / 60)
    if seconds < 60:
        return f"{max(0, round(seconds))}s"
    if minutes < 60:
        return f"{minutes}m"
    hour, minutes = divmod(minutes, 60)
    return f"{hour}h{minutes:02}m" if hour < 24 else f"{hour // 24}d{hour % 24}h"


def two_places(seconds: float | None) -> str:
    """`850ms`, `42s`, `12m`, `3h20`, `2d04h`: a duration in a figure or a table of reports, to two places."""
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
    hour = round(seconds / 3600)
    return f"{hour // 24}d{hour % 24:02}h" if hour < 100 * 24 else f"{hour // 24}d"


def expected_start(estimate: Mapping[str, Any] | None, now: float) -> str | None:
    """`in about 48m, nine times in ten within 2h10m`; `overdue by 5m` where even the latter is past; None without an estimate.

    `estimate` has `p50_unix` and `p90_unix`, and says whether such estimates were `checked`. It never says "now": whether a
    device would take the job at this moment is a question to admission, not an estimate.
    """
    if not estimate:
        return None
    half_s, most_s = estimate["p50_unix"] - now, estimate["p90_unix"] - now
    # Estimates are a few seconds old: a start that was due within the last minute is not called overdue.
    if most_s <= -60:
        return f"overdue by {about(-most_s)}"
    first = "soon" if half_s < 1 else f"in about {about(half_s)}"
    if not estimate.get("checked", True):  # nine times in ten would be a promise
        return f"{first}, not yet checked against real starts"
    return first if most_s < 1 else f"{first}, nine times in ten within {about(most_s)}"


def when(value: object) -> float | None:
    """Unix seconds of an RFC 3339 text or a number; None of anything else."""
    if isinstance(value, int | float):
        return float(value)
    if not isinstance(value, str):
        return None
    from datetime import datetime

    try:
        return datetime.fromisoformat(value).timestamp()
    except ValueError:
        return None


def local_time(value: object) -> str:
    """`2026-11-20 23:59:01` in the user's own time zone, of what `when` reads."""
    at = when(value)
    return UNKNOWN if at is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def with_local_times(sentence: str) -> str:
    """The sentence with its moments, as `rfc3339` writes them, in the user's own time zone."""
    return re.sub(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", lambda found: local_time(found[0]), sentence)


def rfc3339(unix: float) -> str:
    """A moment in UTC, to the millisecond: `2026-11-20T22:59:01.000Z`."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(unix, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def rfc3339_or_none(unix: float | None) -> str | None:
    """`rfc3339` of a moment that may be unknown."""
    return None if unix is None else rfc3339(unix)


# --- text of others ------------------------------------------------------------------------------------------------


def clean(text: object) -> str:
    """The text with control characters escaped: a job's name must not move the cursor or set the terminal's title."""
    string = str(text)
    if string.isprintable():
        return string
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in string)


def clean_lines(text: str) -> str:
    """The same for a text of several lines."""
    lines = (clean(line.removesuffix("\r")) + "\r" * line.endswith("\r") for line in text.split("\n"))
    return "\n".join(lines)


def device_name(record: Mapping[str, Any]) -> str | None:
    """The name of a record's device as the API gives it: `gpu3`. None where the record names no device."""
    device = record.get("device_name") or record.get("device")
    return None if device is None else clean(device)
