"""Curves through the collected rows, never past them, and two ways to judge them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuq.lab.characterize.synthetic import METHODS, by_series, curve, judge, middles, profile, synthesise
from tests.lab.characterize.tables import BATCHES, row, site, table

doublings = st.lists(st.integers(0, 12), min_size=1, max_size=6, unique=True).map(
    lambda found: [2.0**one for one in found]
)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(METHODS)), doublings, st.data())
def test_every_curve_goes_through_what_was_collected(method: str, sizes: list[float], data: st.DataObject):
    values = data.draw(st.lists(st.floats(0, 100), min_size=len(sizes), max_size=len(sizes)))
    found = curve(method, sizes, values)
    for size, value in zip(sizes, values, strict=True):
        assert found.at(size) == pytest.approx(value, abs=1e-6)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(METHODS)), doublings, st.floats(0.01, 1e6))
def test_no_curve_knows_anything_beyond_what_was_collected(method: str, sizes: list[float], at: float):
    value = curve(method, sizes, [1.0] * len(sizes)).at(at)
    assert (value is None) == (not min(sizes) <= at <= max(sizes))


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(["linear", "PCHIP"]), st.lists(st.floats(0, 100), min_size=2, max_size=6), st.floats(0, 1))
def test_the_careful_ones_never_leave_the_range_of_their_neighbours(method: str, values: list[float], share: float):
    sizes = [2.0**i for i in range(len(values))]
    value = curve(method, sizes, values).at(2 ** (share * (len(values) - 1)))
    assert value is not None
    assert min(values) - 1e-6 <= value <= max(values) + 1e-6


@pytest.mark.parametrize("method", METHODS)
def test_two_points_give_the_straight_line_in_log_batch(method: str):
    assert curve(method, [4, 64], [10.0, 30.0]).at(16) == pytest.approx(20.0)


@pytest.mark.parametrize("method", METHODS)
def test_a_single_point_knows_itself(method: str):
    found = curve(method, [8], [5.0])
    assert (found.at(8), found.at(9)) == (5.0, None)


def test_a_batch_size_measured_twice_counts_by_its_mean():
    assert curve("cubic spline", [2, 2, 8], [1.0, 3.0, 8.0]).at(2) == pytest.approx(2.0)


@pytest.mark.parametrize("method", ["barycentric", "Krogh", "cubic spline", "spline of order 2"])
def test_a_parabola_is_found_again(method: str):
    sizes = [2.0**i for i in range(5)]
    assert curve(method, sizes, [i**2 for i in range(5)]).at(2**2.5) == pytest.approx(6.25)


def test_errors_as_worked_out_by_hand():
    """Values 0, 4, 0 at 1, 4, 16: held back, the middle one is regenerated as 0; by the round trip as 2."""
    rows = [row("net", size, util=value) for size, value in ((1.0, 0.0), (4.0, 4.0), (16.0, 0.0))]
    linear = next(one for one in judge(table(rows), table(rows).column("util")) if one.method == "linear")
    assert linear.held_back is not None
    assert (linear.held_back.n, linear.held_back.rmse, linear.held_back.mse, linear.held_back.mae) == (
        1,
        4.0,
        16.0,
        4.0,
    )
    assert linear.round_trip is not None
    assert (linear.round_trip.rmse, linear.round_trip.mse, linear.round_trip.mae) == (2.0, 4.0, 2.0)


def test_what_swings_wins_the_round_trip_and_is_not_used_for_it():
    """The reason for holding rows back: a step is regenerated best by what makes up values around it."""
    rows = [row("net", 4.0**i, util=value) for i, value in enumerate((50.0, 50.0, 50.0, 99.0, 99.0, 99.0))]
    found = judge(table(rows), table(rows).column("util"))
    returned = next(one.method for one in found if one.best_round_trip)
    used = next(one for one in found if one.used)
    assert returned not in ("linear", "PCHIP")
    assert next(one for one in found if one.method == returned).impossible > 0
    assert used.method in ("linear", "PCHIP")
    assert used.impossible == 0


@settings(max_examples=15, deadline=None)
@given(st.lists(st.floats(0, 100), min_size=1, max_size=6))
def test_exactly_one_way_is_used_and_its_values_are_possible(values: list[float]):
    rows = [row("net", 2.0**i, util=value) for i, value in enumerate(values)]
    used = [one for one in judge(table(rows), table(rows).column("util")) if one.used]
    assert len(used) == 1
    assert used[0].impossible == 0


def test_with_too_few_rows_nothing_is_judged_and_the_straight_line_is_used():
    rows = [row("net", 2.0, util=1.0), row("net", 8.0, util=2.0), row("other", 4.0, util=3.0)]
    found = judge(table(rows), table(rows).column("util"))
    assert [one.method for one in found if one.used] == ["linear"]
    assert all(one.round_trip is None and one.held_back is None and not one.best_round_trip for one in found)


def test_synthetic_rows_stand_between_the_collected_ones_only():
    whole = site(1)
    found = synthesise(whole, {"util": "linear", "memory": "PCHIP"})
    assert [one.batch_size for one in found] == [8, 64, 181, 512]
    assert all(set(one.values) == {"util", "memory", "batch"} for one in found)
    assert found[0].values["util"] == pytest.approx(11.0)
    assert not synthesise(site(1, batches=BATCHES[:1]), {"util": "linear"})


def test_there_is_no_middle_where_no_whole_number_fits():
    assert middles([1, 2, 2, 3, 4]) == []
    assert middles([1, 4]) == [2.0]


def test_rows_without_a_batch_size_take_no_part():
    rows = [
        row("net", None, util=1.0),
        row("net", 0.0, util=1.0),
        row("net", math.nan, util=1.0),
        row("net", 2.0, util=5.0),
    ]
    assert [size for size, _ in by_series(table(rows))["net"]] == [2.0]


def test_a_profile_is_measured_where_it_was_and_interpolated_between():
    collected = by_series(site(1))["net0"]
    assert profile(collected, 32, {"util": "cubic spline"})["util"] == pytest.approx(12.0)
    assert profile(collected, 64, {"util": "linear"})["util"] == pytest.approx(13.0)
    assert profile(collected, 4096, {"util": "linear"}) == {}


def test_many_batch_sizes_break_no_polynomial():
    sizes = [float(size) for size in range(1, 60)]
    rows = [row("net", size, util=50 + 40 * np.sin(size)) for size in sizes]
    assert sum(one.used for one in judge(table(rows), table(rows).column("util"))) == 1
