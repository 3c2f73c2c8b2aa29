"""Sums up the spans that profilers record, per op.

The result are the times of an `OpProfile`: each op's own time without that of ops nested in it, and how long nothing ran.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class OpSpan:
    """One run of an op. Microseconds; `line` is the stream or thread, on which spans nest or follow each other."""

    op: str
    on_device: bool
    line: object
    start_us: float
    length_us: float

    @property
    def end_us(self) -> float:
        """Where it ends, in microseconds."""
        return self.start_us + self.length_us


def summed(spans: Sequence[OpSpan]) -> dict[str, Any]:
    """The four time fields of an `OpProfile`; those of a side (device, host) without spans are left out."""
    found: dict[str, Any] = {}
    for side, on_device in (("device", True), ("host", False)):
        chosen = [span for span in spans if span.on_device == on_device]
        if chosen:
            found[f"{side}_us"] = _own_times(chosen)
            window = max(span.end_us for span in chosen) - min(span.start_us for span in chosen)
            # How long at least one of them ran.
            busy, until = 0.0, float("-inf")
            for span in sorted(chosen, key=lambda one: one.start_us):
                busy += max(0.0, span.end_us - max(span.start_us, until))
                until = max(until, span.end_us)
            found[f"{side}_idle_us"] = max(0.0, window - busy)
    return found


def _own_times(spans: Iterable[OpSpan]) -> dict[str, float]:
    """Op -> its time without that of spans nested in its own, line by line."""
    totals: dict[str, float] = defaultdict(float)
    open_spans: list[OpSpan] = []
    line: object = None
    for span in sorted(spans, key=lambda one: (str(one.line), one.start_us, -one.length_us)):
        if span.line != line:
            open_spans, line = [], span.line
        while open_spans and open_spans[-1].end_us <= span.start_us:
            open_spans.pop()
        if open_spans:
            inside = min(span.end_us, open_spans[-1].end_us) - span.start_us
            totals[open_spans[-1].op] -= inside
        totals[span.op] += span.length_us
        open_spans.append(span)
    return {op: round(us, 3) for op, us in totals.items() if us > 0}
