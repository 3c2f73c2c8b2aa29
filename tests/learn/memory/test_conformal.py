"""Bounds for work never seen: they hold as often as they say, and few or one-sided measurements make them wider."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuq.learn.memory.conformal import Margin, Residual, Scale, held_out, margin, margins
from gpuq.learn.statistics import Prior

PRIOR = Prior(0.1)
NO_PRIOR = Prior(1e-6, weight=4.0)

residuals = st.builds(
    Residual,
    group=st.sampled_from("abcdefghijklmnopqrstuvwxyz"),
    truth=st.floats(0, 1e12),
    point=st.floats(0, 1e12),
    spread=st.floats(0.1, 10),
    owner=st.sampled_from([None, "ada", "bob", "eve"]),
)


def drawn(chance: random.Random, group: str, rows: int, *, skewed: bool = False) -> list[Residual]:
    """A group's rows: a shift of their own, noise on top, around a forecast of 50."""
    shift = chance.lognormvariate(0, 1) if skewed else chance.gauss(0, 5)
    return [Residual(group, 50 + shift + chance.gauss(0, 2), 50) for _ in range(rows)]


def coverage(groups: int, trials: int, draw: Callable[[random.Random, str], list[Residual]], prior: Prior) -> float:
    """How often the margin from `groups` groups bounds a row of one more."""
    chance = random.Random(groups)
    held = 0
    for _ in range(trials):
        seen = [row for name in range(groups) for row in draw(chance, str(name))]
        new = draw(chance, "new")[0]
        held += new.truth <= margin(seen, 0.95, "added", prior).over(new.point)
    return held / trials


@pytest.mark.parametrize("groups", [19, 40])
@pytest.mark.parametrize("skewed", [False, True])
def test_ninety_five_percent_of_new_groups_stay_under_their_bound(groups: int, skewed: bool):
    """Whatever the distribution, rows within a group alike, groups of unequal size: no prior helps here."""
    share = coverage(groups, 800, lambda c, g: drawn(c, g, c.choice((1, 2, 12)), skewed=skewed), NO_PRIOR)
    assert share >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / 800)
    assert share <= 0.95 + 1 / (groups + 1) + 0.02, "far too wide"


@pytest.mark.parametrize("groups", [1, 3, 6, 11, 18])
def test_few_groups_are_covered_too_when_the_prior_has_the_right_scale(groups: int):
    share = coverage(groups, 800, lambda c, g: drawn(c, g, 4), Prior(math.hypot(5, 2)))
    assert share >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / 800)


def test_rows_of_one_group_do_not_count_as_evidence_of_many():
    """The naive split over rows would call this 400 measurements; it is twenty groups, and one row each says as much."""
    chance = random.Random(1)
    many, one = ([row for name in range(20) for row in drawn(chance, str(name), rows)] for rows in (20, 1))
    assert margin(many, 0.95, "added", PRIOR).votes == margin(one, 0.95, "added", PRIOR).votes == 20
    assert margin(many, 0.95, "added", PRIOR).rows == 400


def test_fewer_groups_widen():
    """The same spread, seen in ever fewer groups."""
    amounts = []
    for groups in (0, 2, 6, 12, 18):
        seen = [Residual(str(name), 1.0 + 0.1 * (-1) ** name, 1.0) for name in range(groups)]
        amounts.append(margin(seen, 0.95, "added", PRIOR).amount)
    assert amounts == sorted(amounts, reverse=True)


def test_nothing_measured_leaves_the_prior():
    alone = margin([], 0.95, "times", PRIOR)
    assert (alone.votes, alone.rows) == (0, 0)
    # Student's t with five degrees of freedom at 95% is 2.015; root two for a mean that nobody has seen either.
    assert alone.amount == pytest.approx(0.1 * 2.015 * math.sqrt(2), rel=0.01)


def test_nineteen_groups_need_no_prior():
    """Enough for order statistics: the highest of nineteen, whatever the prior said."""
    seen = [Residual(str(name), 100 + name, 100) for name in range(19)]
    assert margin(seen, 0.95, "added", Prior(50)).amount == margin(seen, 0.95, "added", NO_PRIOR).amount == 18


def test_memory_is_bounded_in_proportion_and_percentages_stay_percentages():
    factor = Margin(scale="times", amount=math.log(1.2), quantile=0.95, votes=20, rows=20)
    assert factor.over(1e9) == pytest.approx(1.2e9)
    assert factor.over(1e9, spread=2) == pytest.approx(1.44e9)
    points = Margin(scale="added", amount=15, quantile=0.95, votes=20, rows=20)
    assert (points.over(50), points.over(95, most=100)) == (65, 100)
    # A forecast beyond what there can be is somebody else's mistake; its bound does not hide it.
    assert points.over(101, most=100) == 101


def test_owner_with_many_kinds_does_not_decide_the_margin():
    """Ten honest owners are off by a tenth; a flood of forty kinds that are foretold to the byte does not narrow that."""
    honest = [Residual(f"{owner}-{kind}", 1.1, 1.0, owner=owner) for owner in "abcdefghij" for kind in range(3)]
    flood = [Residual(f"flood-{kind}", 1.0, 1.0, owner="flood") for kind in range(1000)]
    assert margin([*honest, *flood], 0.95, "times", NO_PRIOR).amount == pytest.approx(math.log(1.1), abs=1e-6)
    unowned = [Residual(row.group, row.truth, row.point) for row in [*honest, *flood]]
    assert margin(unowned, 0.95, "times", NO_PRIOR).amount < math.log(1.05)


def test_an_owner_alone_keeps_all_votes_and_two_share_them():
    def votes(**kinds: int) -> float:
        rows = [Residual(f"{owner}{kind}", 1.0, 1.0, owner=owner) for owner, n in kinds.items() for kind in range(n)]
        return margin(rows, 0.95, "times", PRIOR).votes

    assert votes(ada=30) == 30
    assert votes(ada=30, bob=30) == 60
    assert votes(ada=300, bob=1) == 6
    assert votes(ada=3, bob=1) == 4
    assert votes(ada=100, bob=10, cyd=10, dan=10) == pytest.approx(40)


def test_tier_without_residuals_gets_a_wide_margin():
    sure = [Residual(str(name), 1.01, 1.0) for name in range(30)]
    found = margins({"own": sure}, 0.95, "times", {"own": PRIOR, "cluster": Prior(0.25)})
    assert list(found) == ["own", "cluster"]
    assert found["own"].amount == pytest.approx(math.log(1.01), abs=1e-6)
    assert found["cluster"] == margin([], 0.95, "times", Prior(0.25))


def test_residuals_are_scaled_by_their_spread():
    """Residuals of twice the spread, twice as large: one margin, in units of spread, bounds both."""
    seen = [Residual(str(name), 100 + 10 * (1 + name % 2), 100, spread=1 + name % 2) for name in range(40)]
    found = margin(seen, 0.95, "added", PRIOR)
    assert (found.over(0, spread=1), found.over(0, spread=2)) == (10, 20)


@settings(deadline=None, max_examples=60)
@given(st.lists(residuals, max_size=60), st.randoms(use_true_random=False), st.sampled_from(["added", "times"]))
def test_the_order_of_the_rows_does_not_matter(rows: list[Residual], chance: random.Random, scale: Scale):
    shuffled = chance.sample(rows, len(rows))
    first, second = margin(rows, 0.95, scale, PRIOR), margin(shuffled, 0.95, scale, PRIOR)
    assert first.amount == pytest.approx(second.amount, rel=1e-9, abs=1e-6)
    assert first.votes == second.votes


@settings(deadline=None, max_examples=100)
@given(st.lists(residuals, max_size=60), st.floats(0.5, 0.99), st.sampled_from(["added", "times"]))
def test_a_bound_is_finite_and_never_below_its_point(rows: list[Residual], quantile: float, scale: Scale):
    found = margin(rows, quantile, scale, PRIOR)
    assert math.isfinite(found.amount)
    assert 10.0 <= found.over(10.0, spread=1000.0) < math.inf


def test_residuals_that_are_not_finite_are_ignored():
    good = [Residual(str(name), 1.1, 1.0) for name in range(25)]
    bad = [Residual("x", math.nan, 1.0), Residual("y", 1.0, math.inf), Residual("z", 1.0, 1.0, spread=0.0)]
    assert margin([*good, *bad], 0.95, "times", PRIOR) == margin(good, 0.95, "times", PRIOR)


def test_held_out_predicts_each_group_without_itself():
    assert list(held_out(["b", "a", "b", "c"])) == [([0, 2, 3], [1]), ([1, 3], [0, 2]), ([0, 1, 2], [3])]
    assert list(held_out(["a", "a"])) == []
