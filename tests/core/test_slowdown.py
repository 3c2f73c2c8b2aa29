"""Slowdowns and their intervals, against values worked out by hand or drawn from known distributions."""

from __future__ import annotations

import math
import random

import pytest

from gpuq.core.attempt import AttemptId
from gpuq.core.job import JobId
from gpuq.core.measurement import Measurement, Segment
from gpuq.core.slowdown import Basis, Rate, packing_saving, rates, slowdown, student_quantile

PARTNER = AttemptId(JobId(2), 1)
OTHER = AttemptId(JobId(3), 1)


def segment(values: list[float], *partners: AttemptId) -> Segment:
    steps = round(sum(values) * 5)
    return Segment(partners, 5.0 * len(values), steps, len(values), sum(values), sum(v * v for v in values))


def measured(alone: list[float], shared: list[float]) -> Measurement:
    return Measurement(segments=(segment(alone), segment(shared, PARTNER)))


def test_the_rates_are_the_means_of_the_windows():
    both = rates(measured([10.0, 12.0], [5.0, 7.0]))
    assert both.alone_rate == pytest.approx(11)
    assert both.shared_rate == pytest.approx(6)
    assert both.alone is not None
    assert both.alone.variance == pytest.approx(2)


def test_half_the_speed_is_a_slowdown_of_two():
    found = slowdown(measured([10.0, 10.0], [5.0, 5.0]))
    assert found is not None
    assert (found.value, found.low, found.high, found.basis) == (2, 2, 2, Basis.WITHIN_ATTEMPT)


def test_the_interval_follows_the_written_formula():
    found = slowdown(measured([9.0, 10.0, 11.0], [4.0, 5.0, 6.0]))
    assert found is not None
    spread = 1 / (3 * 100) + 1 / (3 * 25)
    freedom = spread**2 / ((1 / 300) ** 2 / 2 + (1 / 75) ** 2 / 2)
    assert 2 < freedom < 3
    assert found.high == pytest.approx(2 * math.exp(4.303 * math.sqrt(spread)))
    assert found.low == pytest.approx(2 / math.exp(4.303 * math.sqrt(spread)))


@pytest.mark.parametrize("windows", [4, 20])
def test_the_interval_holds_the_truth_about_95_times_in_100(windows: int):
    chance = random.Random(7)
    hits = 0
    for _ in range(1000):
        alone = [chance.gauss(10, 1) for _ in range(windows)]
        shared = [chance.gauss(8, 1) for _ in range(windows)]
        found = slowdown(measured(alone, shared))
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= 1.25 <= found.high
    assert 925 <= hits <= 990


def test_a_single_window_gives_a_value_without_an_interval():
    found = slowdown(measured([10.0], [5.0, 6.0]))
    assert found is not None
    assert found.value == pytest.approx(10 / 5.5)
    assert found.low is None
    assert found.high is None


@pytest.mark.parametrize("measurement", [measured([], [5.0]), measured([10.0], []), Measurement()])
def test_nothing_to_compare_with_is_unknown(measurement: Measurement):
    assert slowdown(measurement) is None


def test_the_kinds_rate_stands_in_when_the_attempt_was_never_alone():
    found = slowdown(measured([], [5.0, 5.5]), Rate.of([10.0, 11.0]))
    assert found is not None
    assert found.value == pytest.approx(2)
    assert found.basis is Basis.KIND


def test_one_window_alone_yields_to_the_kinds_rate_but_two_do_not():
    kind = Rate.of([20.0, 20.0])
    one, two = slowdown(measured([10.0], [5.0]), kind), slowdown(measured([10.0, 10.0], [5.0]), kind)
    assert one is not None
    assert two is not None
    assert (one.value, one.basis) == (4, Basis.KIND)
    assert (two.value, two.basis) == (2, Basis.WITHIN_ATTEMPT)


def test_the_shared_side_can_be_limited_to_one_set_of_partners():
    measurement = Measurement(
        segments=(segment([10.0, 10.0]), segment([5.0, 5.0], PARTNER), segment([8.0, 8.0], OTHER))
    )
    beside_one = slowdown(measurement, beside=[PARTNER])
    beside_any = slowdown(measurement)
    assert beside_one is not None
    assert beside_any is not None
    assert beside_one.value == 2
    assert beside_any.value == pytest.approx(10 / 6.5)
    assert slowdown(measurement, beside=[PARTNER, OTHER]) is None


@pytest.mark.parametrize(("freedom", "quantile"), [(1, 12.706), (10, 2.228), (11, 2.201), (20, 2.086), (60, 2.0003)])
def test_students_quantile_matches_the_tables(freedom: float, quantile: float):
    assert student_quantile(freedom) == pytest.approx(quantile, abs=2e-3)


def test_the_packing_saving_of_two_equal_jobs():
    assert packing_saving(100, [100, 100]) == pytest.approx(0.5)
    assert packing_saving(220, [100, 100]) == pytest.approx(-0.1)
    assert packing_saving(10, []) is None
