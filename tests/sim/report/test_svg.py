"""Axes with round ticks, and scales that keep within the picture."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuq.sim.report.svg import AxisScale, even_ticks, time_ticks, write_time


@given(low=st.floats(-1e6, 1e6), span=st.floats(1e-6, 1e6))
def test_ticks_are_few_and_within(low: float, span: float) -> None:
    ticks = even_ticks(low, low + span)
    assert len(ticks) <= 12
    assert all(low - span * 1e-3 <= tick <= low + span * 1.001 for tick in ticks)


@given(low=st.floats(1, 1e4), factor=st.floats(10, 1e4), log=st.booleans())
def test_times_are_few_and_within(low: float, factor: float, log: bool) -> None:
    ticks = time_ticks(low, low * factor, log=log)
    assert 1 <= len(ticks) <= 10
    assert all(low <= tick <= low * factor for tick in ticks)


@given(value=st.floats(-1e9, 1e9), log=st.booleans())
def test_values_outside_the_scale_are_drawn_at_its_edge(value: float, log: bool) -> None:
    assert 10 <= AxisScale(1, 100, 10, 50, log)(value) <= 50


@pytest.mark.parametrize(
    ("seconds", "written"), [(0, "0s"), (40, "40s"), (60, "1m"), (80, "1m20"), (7200, "2h"), (172800, "2d")]
)
def test_ticks_of_time(seconds: float, written: str) -> None:
    assert write_time(seconds) == written
