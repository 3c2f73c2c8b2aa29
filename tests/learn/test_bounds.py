"""Upper bounds from few measurements."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuq.learn.bounds import (
    SAME_KIND_MEMORY,
    conformal_rank,
    order_statistic,
    student_quantile,
    upper_bound,
)

amounts = st.lists(st.floats(0, 1e12), min_size=1, max_size=64)


@pytest.mark.parametrize(("n", "rank"), [(1, None), (18, None), (19, 19), (20, 20), (39, 38), (99, 95)])
def test_ninety_five_percent_needs_nineteen_values(n: int, rank: int | None):
    assert conformal_rank(n, 0.95) == rank


@pytest.mark.parametrize(("quantile", "freedom", "table"), [(0.95, 5, 2.015), (0.95, 10, 1.812), (0.99, 5, 3.365)])
def test_student_quantiles_are_those_of_the_tables(quantile: float, freedom: float, table: float):
    assert student_quantile(quantile, freedom) == pytest.approx(table, rel=0.01)


def test_the_margin_shrinks_as_like_runs_add_up():
    margins = [upper_bound([1000.0] * n, 0.95, SAME_KIND_MEMORY) / 1000 for n in (1, 2, 4, 8, 18)]
    assert margins == sorted(margins, reverse=True)
    assert margins[0] == pytest.approx(1.19, abs=0.01)
    assert margins[-1] < 1.06


def test_runs_that_differ_widen_the_bound():
    assert upper_bound([1000.0, 1500.0], 0.95, SAME_KIND_MEMORY) > 1500 * 1.1


@settings(deadline=None, max_examples=100)
@given(amounts)
def test_a_few_values_never_exceed_their_bound(values: list[float]):
    bound = upper_bound(values, 0.95, SAME_KIND_MEMORY)
    if len(values) < 19:
        assert bound >= max(values)
    assert bound >= order_statistic(values, 0.75)


@pytest.mark.parametrize("runs", [1, 3, 8, 19, 40])
def test_bounds_of_stationary_work_fail_about_as_often_as_they_may(runs: int):
    """Draws from measured repeats' own spread: at most the promised 5% fail, with the chance of 2,000 draws on top."""
    chance = random.Random(runs)
    trials = 2000
    failed = 0
    for _ in range(trials):
        values = [1e9 * chance.lognormvariate(0, 0.05) for _ in range(runs + 1)]
        failed += values[-1] > upper_bound(values[:-1], 0.95, SAME_KIND_MEMORY)
    assert failed / trials <= 0.05 + 3 * (0.05 * 0.95 / trials) ** 0.5
    if runs >= 19:
        assert failed / trials > 0.02, "far too wide"


def test_the_order_statistic_is_a_measured_value():
    assert order_statistic([3.0, 1.0, 2.0], 0.9) == 3.0
    assert order_statistic([1.0, 2.0, 3.0, 4.0], 0.75) == 3.0
    assert order_statistic([5.0], 0.5) == 5.0
