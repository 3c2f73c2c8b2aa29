"""What sharing cost and saved, and rows that contradict themselves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuq.lab.characterize.packing import costs, summarise
from tests.lab.characterize.tables import pair


def no_cluster(place: tuple[str, float | None]) -> None:
    return None


def one(**changes: object):
    return costs([pair(**changes)], no_cluster)[0]


def test_times_give_slowdowns_and_saving():
    found = one(alone_s=(100.0, 50.0), together_s=(120.0, 75.0), slowdown_a=None, slowdown_b=None)
    assert (found.slowdown_a, found.slowdown_b, found.packing_saving) == pytest.approx((1.2, 1.5, 1 - 120 / 150))
    assert found.against == ()


def test_slowdowns_alone_give_the_saving_while_both_run():
    """At 1.25 and 2 a second together does .8 + .5 seconds of work: 1 - 1/1.3 is saved."""
    assert one(slowdown_a=1.25, slowdown_b=2.0).packing_saving == pytest.approx(1 - 1 / 1.3)
    assert one(slowdown_a=1.0, slowdown_b=1.0).packing_saving == pytest.approx(0.5)
    assert one(slowdown_a=None).packing_saving is None


@given(st.floats(1, 100), st.floats(1, 100))
def test_the_saving_is_half_at_best_and_falls_with_every_slowdown(a: float, b: float):
    saving, worse = one(slowdown_a=a, slowdown_b=b).packing_saving, one(slowdown_a=a * 1.1, slowdown_b=b).packing_saving
    assert saving is not None
    assert worse is not None
    assert worse < saving <= 0.5


def test_rows_that_contradict_their_print_are_flagged_and_summed_up_without():
    times = {"alone_s": (100.0, 100.0), "together_s": (120.0, 110.0), "printed_saving": 0.4}
    sound = one(**times, printed_slowdowns=(1.2, 1.1))
    swapped = one(**times, printed_slowdowns=(1.02, 1.1))
    assert sound.against == ()
    assert swapped.against == ("x 1: slowdown 1.2 by the times, 1.02 printed",)
    assert "saves 40.0% by the times, 60.0% printed" in one(**{**times, "printed_saving": 0.6}).against
    summary = summarise([sound, swapped])
    assert [(cost.where, cost.pairs) for cost in summary] == [("all", 1)]


def test_what_got_faster_by_sharing_is_not_believed():
    assert one(slowdown_a=0.97).against == ()
    assert one(slowdown_a=0.8).against == ("x 1: faster together than alone (0.8)",)


def test_the_same_pair_measured_far_apart_is_flagged_both_times():
    first, mirrored = pair(slowdown_a=1.1, slowdown_b=1.2), pair("y 1", "x 1", slowdown_a=2.2, slowdown_b=1.1)
    found = costs([first, mirrored], no_cluster)
    assert [len(row.against) for row in found] == [1, 1]
    assert "measured as 1.2 and as 2.2" in found[0].against[0]
    apart = pair("y 1", "x 1", slowdown_a=2.2, slowdown_b=1.1, sharing="mps")
    assert all(row.against == () for row in costs([first, apart], no_cluster))


def test_within_and_across_clusters_are_kept_apart():
    clusters = {"x": 1, "y": 2}
    pairs = [
        pair(slowdown_a=1.1, slowdown_b=1.1, printed_clusters=("0", "0")),
        pair("x 1", "x 2", place_b=("x", 2.0), slowdown_a=1.5, slowdown_b=1.5, printed_clusters=("0", "1")),
    ]
    found = {
        (cost.grouping, cost.where): cost for cost in summarise(costs(pairs, lambda place: clusters.get(place[0])))
    }
    assert found["ours", "across"].slowdown_median == pytest.approx(1.1)
    assert found["ours", "within"].slowdown_median == pytest.approx(1.5)
    assert found["ours", "1 with 2"].pairs == 1
    assert found["theirs", "within"].slowdown_worst == pytest.approx(1.1)
    assert found["all", "all"].slowdown_mean == pytest.approx(1.3)
    assert found["all", "all"].packing_saving_mean == pytest.approx((1 - 1.1 / 2 + 1 - 1.5 / 2) / 2)


def test_a_pair_measured_from_both_sides_counts_once():
    mirrored = [pair(slowdown_a=1.2, slowdown_b=1.5), pair("y 1", "x 1", slowdown_a=1.5, slowdown_b=1.2)]
    other = pair("x 1", "z 1", slowdown_a=2.0, slowdown_b=None)
    (found,) = summarise(costs([*mirrored, other], no_cluster))
    assert found.pairs == 2
    assert found.slowdown_mean == pytest.approx((1.2 + 1.5 + 2.0) / 3)


def test_a_job_in_no_cluster_is_within_none():
    assert {cost.grouping for cost in summarise(costs([pair()], no_cluster))} == {"all"}
