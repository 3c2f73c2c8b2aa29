"""Absolute reaches are compared in loops that were timed beside them."""

from __future__ import annotations

import pytest

from benchmarks import reference
from benchmarks.table import Row


@pytest.fixture(autouse=True)
def loop_of_20_ms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "time_loop", lambda turns=1: reference._took.extend([20.0] * turns))
    reference.begin()


@pytest.mark.parametrize(("unit", "value", "loops"), [("ms", 80.0, 4.0), ("s", 1.0, 50.0), ("% of a core", 10.0, 5.0)])
def test_a_machine_half_as_fast_may_take_twice_as_long(unit: str, value: float, loops: float) -> None:
    in_loops, absolute = reference.in_loops([Row("it", value, unit, reach=value / 2)])

    assert in_loops.value == pytest.approx(loops)
    assert in_loops.reach == pytest.approx(loops)
    assert in_loops.ok
    assert (absolute.value, absolute.unit, absolute.reach) == (value, unit, None)


def test_ratios_and_rows_without_a_reach_stay_as_they_are() -> None:
    rows = [Row("a ratio", 1.1, "times", 1.2), Row("  why", 5.0, "ms"), Row("memory", 100.0, "MiB", 120.0)]

    assert list(reference.in_loops(rows)) == rows
