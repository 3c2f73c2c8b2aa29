"""Upper bounds from few measurements, and exact tests."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuq.learn.statistics import (
    SAME_KIND_MEMORY,
    binomial_tail,
    bound_of_modes,
    conformal_rank,
    order_statistic,
    sign_flip_p_value,
    student_quantile,
    upper_bound,
)

amounts = st.lists(st.floats(0, 1e12), min_size=1, max_size=64)


@pytest.mark.parametrize(("n", "rank"), [(1, None), (18, None), (19, 19), (20, 20), (39, 38), (99, 95)])
def test_conformal_rank_at_95_percent_needs_19_values(n: int, rank: int | None):
    assert conformal_rank(n, 0.95) == rank


@pytest.mark.parametrize(("quantile", "freedom", "table"), [(0.95, 5, 2.015), (0.95, 10, 1.812), (0.99, 5, 3.365)])
def test_student_quantile_matches_tables(quantile: float, freedom: float, table: float):
    assert student_quantile(quantile, freedom) == pytest.approx(table, rel=0.01)


def test_bound_narrows_with_more_equal_runs():
    margins = [upper_bound([1000.0] * n, 0.95, SAME_KIND_MEMORY) / 1000 for n in (1, 2, 4, 8, 18)]
    assert margins == sorted(margins, reverse=True)
    assert margins[0] == pytest.approx(1.19, abs=0.01)
    assert margins[-1] < 1.06


def test_bound_widens_with_the_spread_of_runs():
    assert upper_bound([1000.0, 1500.0], 0.95, SAME_KIND_MEMORY) > 1500 * 1.1


@settings(deadline=None, max_examples=100)
@given(amounts)
def test_bound_of_few_values_is_at_least_their_maximum(values: list[float]):
    bound = upper_bound(values, 0.95, SAME_KIND_MEMORY)
    if len(values) < 19:
        assert bound >= max(values)
    assert bound >= order_statistic(values, 0.75)


@pytest.mark.parametrize("runs", [1, 3, 8, 19, 40])
def test_bounds_of_stationary_work_fail_about_as_often_as_promised(runs: int):
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


@pytest.mark.parametrize("place", [0, 17, 63])
def test_a_rare_need_that_is_far_higher_is_bounded_too(place: int):
    values = [2.0 + 0.01 * (number % 5) for number in range(64)]
    assert bound_of_modes(values, 0.95, SAME_KIND_MEMORY) == upper_bound(values, 0.95, SAME_KIND_MEMORY)
    values[place] = 10.0
    assert upper_bound(values, 0.95, SAME_KIND_MEMORY) < 3
    assert bound_of_modes(values, 0.95, SAME_KIND_MEMORY) == upper_bound([10.0], 0.95, SAME_KIND_MEMORY) > 10


def test_order_statistic_returns_a_measured_value():
    assert order_statistic([3.0, 1.0, 2.0], 0.9) == 3.0
    assert order_statistic([1.0, 2.0, 3.0, 4.0], 0.75) == 3.0
    assert order_statistic([5.0], 0.5) == 5.0


@pytest.mark.parametrize(
    ("count", "of", "probability", "tail"),
    [(0, 3, 0.05, 1.0), (1, 3, 0.05, 0.142625), (2, 3, 0.05, 0.00725), (3, 3, 0.05, 0.000125), (1, 9, 0.0, 0.0)],
)  # fmt: skip
def test_binomial_tail_matches_textbook_values(count: int, of: int, probability: float, tail: float):
    assert binomial_tail(count, of, probability) == pytest.approx(tail)


def test_one_failure_of_three_is_chance_and_two_are_not():
    assert binomial_tail(1, 3, 0.05) > 0.1 > binomial_tail(2, 3, 0.05)


@given(st.lists(st.floats(-10, 10), max_size=20))
def test_sign_flip_p_value_of_few_differences_is_never_small(differences: list[float]):
    assert 0.0 <= sign_flip_p_value(differences) <= 1.0
    if len(differences) <= 12:
        assert sign_flip_p_value(differences) >= 2.0 ** -len(differences) * (1 - 1e-9)


def test_sign_flip_p_value_of_equal_differences_is_two_to_the_minus_n():
    assert sign_flip_p_value([5.0, 5.0, 5.0]) == pytest.approx(1 / 8)
    assert sign_flip_p_value([1.0] * 4) == pytest.approx(1 / 16)
    assert sign_flip_p_value([]) == sign_flip_p_value([0.0]) == sign_flip_p_value([-1.0, 0.5]) == 1.0


def test_sign_flip_test_rejects_noise_as_rarely_as_its_level():
    chance = random.Random(1)
    called = sum(sign_flip_p_value([chance.gauss(0, 1) for _ in range(10 + 10 * (n % 2))]) < 0.1 for n in range(300))
    assert called / 300 == pytest.approx(0.1, abs=0.05)
