"""Figures counted by hand, and the laws they keep."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuq.lab.evaluate import figures
from gpuq.lab.evaluate.figures import Flags, Numbers


def numbers(*values: float) -> Numbers:
    return np.array(values, dtype=float)


def flags(*values: int) -> Flags:
    return np.array(values, dtype=bool)


def test_errors_counted_by_hand() -> None:
    assert figures.mean_absolute_pct(numbers(1.1, 1.0), numbers(1.0, 2.0)) == pytest.approx((10 + 50) / 2)
    assert figures.mean_absolute(numbers(40, 70), numbers(50, 65)) == pytest.approx(7.5)


def test_auc_counts_the_pairs_that_are_in_order_and_half_of_the_ties() -> None:
    # good: 3 and 1; not: 2 and 1. 3 beats both, 1 loses to 2 and ties with 1: 2.5 of 4.
    assert figures.auc(numbers(3, 1, 2, 1), flags(1, 1, 0, 0)) == pytest.approx(2.5 / 4)


def test_auc_of_one_class_is_not_defined() -> None:
    assert figures.auc(numbers(1, 2), flags(1, 1)) is None
    assert figures.auc(numbers(1, 2), flags(0, 0)) is None


def test_admissions_counted_by_hand() -> None:
    admitted, good = flags(1, 1, 0, 0), flags(1, 0, 1, 0)
    assert figures.precision(admitted, good) == 0.5
    assert figures.recall(admitted, good) == 0.5
    assert figures.precision(flags(0, 0), flags(1, 0)) is None
    assert figures.recall(flags(1, 0), flags(0, 0)) is None


def test_bounds_counted_by_hand() -> None:
    assert figures.coverage_pct(numbers(1, 2, 3, 4), numbers(1, 1, 4, 4)) == 75
    assert figures.overshoot(numbers(2, 3, 5), numbers(1, 2, 0)) == pytest.approx((2 + 1.5) / 2)
    assert figures.far_below_pct(numbers(89, 91, 200), numbers(100, 100, 100)) == pytest.approx(100 / 3)


def test_nothing_to_judge_is_none_and_never_zero() -> None:
    none, no = numbers(), flags()
    for figure in (figures.mean_absolute_pct, figures.mean_absolute, figures.coverage_pct, figures.overshoot):
        assert figure(none, none) is None
    assert figures.auc(none, no) is figures.precision(no, no) is figures.recall(no, no) is None


scored = st.lists(st.tuples(st.integers(-20, 20), st.booleans()), min_size=1, max_size=40)


@given(scored)
def test_auc_does_not_change_under_a_rising_map(rows: list[tuple[int, bool]]) -> None:
    score, good = numbers(*(score for score, _ in rows)), flags(*(good for _, good in rows))
    assert figures.auc(score, good) == figures.auc(np.exp(score / 7) * 3 - 5, good)


@given(scored)
def test_auc_of_the_opposite_order_is_the_rest_to_one(rows: list[tuple[int, bool]]) -> None:
    score, good = numbers(*(score for score, _ in rows)), flags(*(good for _, good in rows))
    forth, back = figures.auc(score, good), figures.auc(-score, good)
    assert (forth is None) == (back is None)
    if forth is not None and back is not None:
        assert forth + back == pytest.approx(1)


@given(scored)
def test_auc_is_what_counting_each_pair_gives(rows: list[tuple[int, bool]]) -> None:
    above = [score for score, good in rows if good]
    below = [score for score, good in rows if not good]
    counted = [(a > b) + (a == b) / 2 for a in above for b in below]
    found = figures.auc(numbers(*(score for score, _ in rows)), flags(*(good for _, good in rows)))
    assert found == (pytest.approx(sum(counted) / len(counted)) if counted else None)


@given(st.lists(st.tuples(st.floats(0.1, 10), st.floats(0.1, 10)), min_size=1, max_size=30), st.floats(1, 3))
def test_a_wider_bound_never_covers_less(rows: list[tuple[float, float]], wider: float) -> None:
    upper, measured = numbers(*(a for a, _ in rows)), numbers(*(b for _, b in rows))
    narrow, wide = figures.coverage_pct(upper, measured), figures.coverage_pct(upper * wider, measured)
    assert narrow is not None
    assert wide is not None
    assert 0 <= narrow <= wide <= 100


@given(st.lists(st.tuples(st.floats(0.1, 10), st.floats(0.1, 10)), min_size=1, max_size=30), st.floats(0.1, 100))
def test_the_error_in_percent_knows_no_unit(rows: list[tuple[float, float]], unit: float) -> None:
    expected, measured = numbers(*(a for a, _ in rows)), numbers(*(b for _, b in rows))
    assert figures.mean_absolute_pct(expected * unit, measured * unit) == pytest.approx(
        figures.mean_absolute_pct(expected, measured)
    )
