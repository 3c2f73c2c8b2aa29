"""From measured batch sizes to one that was not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuq.learn.memory.extend import extend
from gpuq.learn.statistics import SAME_KIND_MEMORY


def carried(measured: dict[float, float], wanted: float) -> tuple[float, float]:
    return extend(list(measured), list(measured.values()), wanted, 0.95, SAME_KIND_MEMORY)


def test_two_batch_sizes_give_a_slope():
    """1,000 for weights and context, 10 per sample."""
    point, upper = carried({8: 1080, 16: 1160}, 32)
    assert point == pytest.approx(1320)
    assert 1.05 * point < upper < 1.3 * point


def test_one_size_shows_no_slope_so_memory_may_grow_with_the_batch():
    point, upper = carried({16: 1160}, 32)
    assert point == 2320
    assert upper > point


def test_between_measured_sizes_memory_is_interpolated():
    assert carried({8: 1000, 32: 1600}, 16)[0] == pytest.approx(1200)
    assert carried({8: 1000, 32: 1600}, 32)[0] == 1600
    assert carried({8: 1000, 32: 1600}, 2)[0] == 1000, "smaller than any: no less than the smallest"


def test_the_highest_of_several_runs_counts():
    assert extend([8, 8, 16], [900, 1000, 1100], 32, 0.95, SAME_KIND_MEMORY)[0] == pytest.approx(1300)


def test_smaller_peak_at_a_larger_batch_is_ignored():
    """As measured under TensorFlow: 7,897 MiB at 256, then 6,105 at 512."""
    assert carried({128: 3801, 256: 7897, 512: 6105}, 512)[0] == 7897


def test_one_odd_size_of_many_does_not_tilt_the_line():
    straight = {float(size): 1000.0 + 10 * size for size in (8, 16, 24, 32, 40)}
    assert carried(straight | {24.0: 1300.0}, 64)[0] == pytest.approx(carried(straight, 64)[0], rel=0.03)


@settings(deadline=None, max_examples=200)
@given(
    st.dictionaries(st.floats(1, 4096), st.floats(1, 1e11), min_size=1, max_size=6),
    st.floats(0.5, 1e5),
    st.floats(1, 4),
)
def test_a_larger_batch_never_needs_less_and_never_more_than_in_proportion(
    measured: dict[float, float], wanted: float, times: float
):
    point, upper = carried(measured, wanted)
    assert min(measured.values()) <= point * (1 + 1e-9)
    assert point <= upper
    assert point <= carried(measured, wanted * times)[0] * (1 + 1e-9)
    assert point <= max(measured.values()) * max(1.0, wanted / max(measured)) * (1 + 1e-9)


def test_bound_widens_with_each_doubling():
    measured = {8.0: 1080.0, 16.0: 1160.0}
    factors = [upper / point for point, upper in (carried(measured, size) for size in (32, 64, 128))]
    assert factors == sorted(factors)
    assert factors[0] < factors[-1]
