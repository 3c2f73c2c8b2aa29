"""How a figure of each unit is written in a report."""

from __future__ import annotations

from gpuq.format import count, hours, ratio, share, two_places

BY_UNIT = {
    "s": two_places,
    "share": share,
    "count": count,
    "ratio": ratio,
    "h": hours,
    "kWh": hours,
    "money": hours,
}
