"""The bars of a device as SVG: stacked by job, with a ghost bar for what was predicted.

A missing reading gives an empty bar with the text "unknown".
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuq.api.contract.schema import DeviceView
from gpuq.format import gib

_COLOURS = 8


@dataclass(frozen=True, slots=True)
class DeviceBar:
    """A bar: its value as text, the SVG, and a note under it."""

    now: str
    svg: str
    note: str


def shades(device: DeviceView) -> list[str]:
    """A colour class for each resident: by its id, so that it does not change, and different for all on one device."""
    taken: list[int] = []
    for resident in device.residents:
        number = resident.job % _COLOURS
        while number in taken and len(taken) < _COLOURS:
            number = (number + 1) % _COLOURS
        taken.append(number)
    return [f"c{number}" for number in taken]


def utilization_bar(device: DeviceView) -> DeviceBar:
    """Current utilisation, stacked by job; the ghost is the sum of the predicted peaks."""
    used = device.utilization_pct
    parts = [(shade, r.utilization_pct or 0.0) for r, shade in zip(device.residents, shades(device), strict=True)]
    known = sum(width for _, width in parts)
    if used is not None and used > known:
        parts.append(("other", used - known))
    peaks = [r.forecast.peak_utilization_pct if r.forecast else None for r in device.residents]
    peak = None if not peaks or None in peaks else sum(p for p in peaks if p is not None)
    now = "unknown" if used is None else f"{used:.0f}%"
    note = "" if not peaks else "peaks not known yet" if peak is None else f"predicted peaks together {peak:.0f}%"
    return DeviceBar(now, _svg(f"Utilisation {now}", parts, peak), note)


def memory_bar(device: DeviceView) -> DeviceBar:
    """Current memory, stacked by job; the ghost is the promised memory."""
    total = device.total_memory_bytes
    sizes = [r.memory_bytes or 0 for r in device.residents]
    parts = [(shade, 100 * size / total) for size, shade in zip(sizes, shades(device), strict=True)] if total else []
    known = sum(sizes)
    used = device.used_memory_bytes
    if used is not None and used > known and total:
        parts.append(("other", 100 * (used - known) / total))
    promised = device.promised_memory_bytes
    ghost = None if not promised or not total else 100 * promised / total
    now = f"{'unknown' if used is None else gib(used)} of {gib(total)}"
    note = f"{gib(promised)} promised" if promised else ""
    if device.foreign_memory_bytes:
        note = ", ".join(filter(None, (note, f"{gib(device.foreign_memory_bytes)} foreign")))
    return DeviceBar(now, _svg(f"Memory {now}", parts, ghost), note)


def _svg(label: str, parts: list[tuple[str, float]], ghost: float | None) -> str:
    """Parts and ghost in percent of the bar; values beyond 100 are cut off."""
    drawn, start = [], 0.0
    for name, width in parts:
        shown = max(0.0, min(width, 100.0 - start))
        if shown > 0:
            drawn.append(f'<rect class="{name}" x="{start:.2f}%" y="0" width="{shown:.2f}%" height="100%"/>')
        start += shown
    if ghost is not None:
        drawn.insert(0, f'<rect class="ghost" x="0" y="0" width="{min(ghost, 100.0):.2f}%" height="100%"/>')
        drawn.append(f'<rect class="peak" x="{min(ghost, 99.5):.2f}%" y="0" width="2" height="100%"/>')
    return f'<svg class="bar" role="img" aria-label="{label}" width="100%" height="14">{"".join(drawn)}</svg>'
