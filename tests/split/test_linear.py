from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from gpuq.split.linear import Facts, LinearForm, Symbol, can_meet

TERMS = st.lists(st.tuples(st.integers(-9, 9), st.integers(-4, 4), st.integers(-4, 4)), max_size=4)


@given(TERMS, st.integers(-30, 30), st.integers(0, 5))
def test_forms_meet_exactly_where_counting_finds_a_common_value(terms, low, width):
    values = [[factor * value for value in range(least, most + 1)] for factor, least, most in terms]
    counted = any(low <= sum(one) <= low + width for one in product(*values))
    assert can_meet(terms, low, low + width) == counted


def test_a_search_that_is_given_up_says_that_they_may_meet():
    factors = [(10**9 + 2 * number + 1) * 10**3 for number in range(24)]
    assert can_meet([(factor, 0, 1) for factor in factors], sum(factors) // 2 + 1, sum(factors) // 2 + 1)


def test_facts_bring_bounds_closer():
    x, y = Symbol("x", 0, 99), Symbol("y", 0, 99)
    facts = (
        Facts()
        .adding(LinearForm(9) - LinearForm.of(x))
        .adding(LinearForm(50) - LinearForm.of(x) - LinearForm.of(y) * 2)
    )
    assert LinearForm.of(x).bounds(facts) == (0, 9)
    assert (LinearForm.of(x) * 3 + LinearForm.of(y) * 6).bounds(facts) == (0, 150)
    assert (LinearForm.of(x) - LinearForm.of(y)).bounds(facts) == (-99, 9)


def test_a_fact_that_contradicts_the_bounds_changes_nothing():
    x = Symbol("x", 0, 9)
    assert LinearForm.of(x).bounds(Facts().adding(LinearForm.of(x) - LinearForm(20))) == (0, 9)


def test_a_form_is_divided_only_without_a_rest():
    x = Symbol("x", 0, 9)
    assert (LinearForm.of(x) * 4 + LinearForm(8)).divided(4) == LinearForm.of(x) + LinearForm(2)
    assert (LinearForm.of(x) * 4 + LinearForm(2)).divided(4) is None
