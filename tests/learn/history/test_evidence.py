"""What a difference on few attempts says."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuq.learn.history.evidence import at_least, larger


@pytest.mark.parametrize(
    ("count", "of", "probability", "tail"),
    [(0, 3, 0.05, 1.0), (1, 3, 0.05, 0.142625), (2, 3, 0.05, 0.00725), (3, 3, 0.05, 0.000125), (1, 9, 0.0, 0.0)],
)  # fmt: skip
def test_the_binomial_tail_is_the_textbooks(count: int, of: int, probability: float, tail: float):
    assert at_least(count, of, probability) == pytest.approx(tail)


def test_one_failure_of_three_says_nothing_two_say_something():
    assert at_least(1, 3, 0.05) > 0.1 > at_least(2, 3, 0.05)


@given(st.lists(st.floats(-10, 10), max_size=20))
def test_few_differences_never_show_much(differences: list[float]):
    assert 0.0 <= larger(differences) <= 1.0
    if len(differences) <= 12:
        assert larger(differences) >= 2.0 ** -len(differences) * (1 - 1e-9)


def test_three_differences_are_not_enough_for_a_tenth():
    assert larger([5.0, 5.0, 5.0]) == pytest.approx(1 / 8)
    assert larger([1.0] * 4) == pytest.approx(1 / 16)
    assert larger([]) == larger([0.0]) == larger([-1.0, 0.5]) == 1.0


def test_noise_is_called_a_difference_as_rarely_as_asked():
    chance = random.Random(1)
    called = sum(larger([chance.gauss(0, 1) for _ in range(10 + 10 * (n % 2))]) < 0.1 for n in range(300))
    assert called / 300 == pytest.approx(0.1, abs=0.05)
