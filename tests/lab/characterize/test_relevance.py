"""Coefficients that one can work out by hand, a stated rule, and columns that may never be chosen."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuq.lab.characterize.relevance import rank
from gpuq.lab.characterize.table import FeatureColumn
from tests.lab.characterize.tables import row, site, table


def five(**columns: list[float | None]):
    features = [
        FeatureColumn("batch", before=True),
        *(FeatureColumn(name) for name in columns if name not in ("util", "memory")),
    ]
    return table(
        [row("net", 2.0**i, **{name: values[i] for name, values in columns.items()}) for i in range(5)], features
    )


def test_three_coefficients_as_worked_out_by_hand():
    """Of 1..5 against 1, 3, 2, 5, 4: one swap in each of two pairs.

    Sum of squared rank differences 0+1+1+1+1: rho = 1 - 6*4/(5*24) = .8; 8 of 10 pairs in order: tau = .6. The values are
    their own ranks, so Pearson equals Spearman.
    """
    ranking = rank(five(util=[1.0, 2.0, 3.0, 4.0, 5.0], a=[1.0, 3.0, 2.0, 5.0, 4.0]), "util")
    one = next(one for one in ranking.ranked if one.feature == "a")
    assert (one.pearson.value, one.spearman.value, one.kendall.value) == pytest.approx((0.8, 0.8, 0.6))
    assert one.n == 5
    # With r = .8 and 3 degrees of freedom t = 2.309, of which two-sided p is .104.
    assert one.pearson.p == pytest.approx(0.104, abs=5e-4)
    assert not one.chosen
    assert "chance" in (one.why_not or "")


def test_a_counter_since_boot_is_never_chosen_however_well_it_fits():
    ranking = rank(site(), "util")
    assert "boots" not in ranking.chosen
    assert ("boots", "counts since boot") in [(one.feature, one.reason) for one in ranking.shut_out]
    assert "boots" not in [one.feature for one in ranking.ranked]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(0, 100), min_size=5, max_size=12))
def test_no_leak_is_chosen_whatever_the_values(values: list[float]):
    rows = [row("net", i + 1.0, util=value, boots=value, power=value * 2) for i, value in enumerate(values)]
    for target in ("util", "memory"):
        ranking = rank(table(rows), target)
        assert not {"boots", "util", "memory"} & {one.feature for one in ranking.ranked}


def test_what_says_the_same_again_is_ranked_but_not_chosen():
    features = [FeatureColumn("power"), FeatureColumn("twice"), FeatureColumn("batch", before=True)]
    rows = [
        row("net", float(i % 7 + 1), util=float(i), power=i + 3.0 * (i % 3), twice=2 * (i + 3.0 * (i % 3)) + 1.0)
        for i in range(30)
    ]
    ranking = rank(table(rows, features), "util")
    assert ranking.chosen == ("power",)
    assert {one.feature: one.why_not for one in ranking.ranked}["twice"] == "repeats power"


def test_features_are_ordered_by_their_mean_rank():
    ranks = [one.rank for one in rank(site(), "util").ranked]
    assert ranks == sorted(ranks)
    assert ranks[0] == 1.0


def test_constants_and_what_is_rarely_known_are_listed_with_the_reason():
    table_ = five(
        util=[1.0, 2.0, 3.0, 4.0, 5.0],
        same=[7.0] * 5,
        rare=[1.0, None, None, 2.0, math.nan],
        a=[5.0, 4.0, 3.0, 2.0, 1.0],
    )
    reasons = {one.feature: one.reason for one in rank(table_, "util").shut_out}
    assert reasons == {"same": "constant", "rare": "known beside util in 2 rows only, 5 needed"}


def test_a_target_that_never_changes_ranks_nothing():
    ranking = rank(five(util=[4.0] * 5, a=[1.0, 2.0, 3.0, 4.0, 5.0]), "util")
    assert ranking.ranked == ()
    assert ranking.chosen == ()


def test_what_is_known_before_the_run_is_marked():
    assert {one.feature: one.known_before_run for one in rank(site(), "util").ranked} == {"batch": True, "power": False}
