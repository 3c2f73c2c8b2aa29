"""A fixed loop of pure Python, timed beside what is measured, so that a reach means the same on every machine.

A reach in milliseconds, seconds or percent of a core is meant for a core that needs `LOOP_MS` for the loop. Each benchmark has
the loop timed before and after it, and may time it in turns; the row is the value in loops, and the absolute value stands below.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from statistics import median

from benchmarks.table import Row

LOOP_MS = 10.0
_STEPS = 60_000
_TURNS = 5
# Milliseconds in one of the unit; a percent of a core is 10 ms in each second.
_MILLISECONDS = {"ms": 1.0, "s": 1000.0, "% of a core": 10.0}
_took: list[float] = []


def time_loop(turns: int = 1) -> None:
    """Time the loop, for the benchmark that runs."""
    for _ in range(turns):
        began = time.perf_counter()
        _loop()
        _took.append(1000 * (time.perf_counter() - began))


def begin() -> None:
    """Another benchmark begins."""
    _took.clear()
    time_loop(_TURNS)


def loop_ms() -> float:
    """The median of what the loop took since `begin`."""
    return median(_took)


def in_loops(rows: Iterable[Row]) -> Iterator[Row]:
    """The rows of the benchmark that ended; those with an absolute reach in loops, and as they were below."""
    time_loop(_TURNS)
    took_ms = loop_ms()
    for row in rows:
        if row.reach is None or row.unit not in _MILLISECONDS:
            yield row
            continue
        in_ms = _MILLISECONDS[row.unit]
        unit = "loops a second" if row.unit == "% of a core" else "loops"
        value = None if row.value is None else row.value * in_ms / took_ms
        yield replace(row, value=value, unit=unit, reach=row.reach * in_ms / LOOP_MS)
        yield Row("  which is", row.value, row.unit, note=f"a loop took {took_ms:.1f} ms")


def _loop() -> int:
    """Arithmetic, calls, and small objects, as schedulers have them."""
    known: dict[int, tuple[int, int]] = {}
    total = 0
    for step in range(_STEPS):
        known[step % 1024] = step, total
        total += max(known[step % 512])
        total %= 65_521
    return total
