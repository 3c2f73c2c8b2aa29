"""Interference from tables of singles and pairs."""

from __future__ import annotations

from gpuq.lab.measured import Pair, Single
from gpuq.learn.interference import Profile, fit_tables, profile_of
from gpuq.learn.interference.tables import directed
from tests.learn.interference.world import expect

SINGLES = [Single("gpu", "a", "cnn", 8, utilization_pct=50.0, steps_per_s=1.0), Single("gpu", "b", "")]


def test_a_single_becomes_a_profile_and_blank_stays_unknown():
    assert profile_of(SINGLES[0]) == Profile("a", "cnn", 50.0, None, 3.0, 0.0)
    assert profile_of(SINGLES[1]) == Profile("b")


def test_each_row_gives_both_directions_unless_blank():
    found = directed([Pair("gpu", "mps", "a", "b", 1.2, None), Pair("gpu", "mps", "b", "a", 1.4, 1.3)])

    assert found == {("gpu", "mps"): {("a", "b"): [1.2, 1.3], ("b", "a"): [1.4]}}


def test_types_of_device_and_ways_of_sharing_never_mix():
    pairs = [
        Pair("gpu", "mps", "a", "b", 1.2, 1.3),
        Pair("gpu", None, "a", "b", 3.0, 3.0),
        Pair("other", "mps", "a", "c", 2.0, 2.0),
    ]
    found = fit_tables(SINGLES, pairs)

    assert set(found) == {("gpu", "mps"), ("gpu", None), ("other", "mps")}
    assert found["gpu", "mps"].known(Profile("a"), Profile("c")) == 1
    assert (
        expect(found["gpu", "mps"], Profile("a"), Profile("b"))[0]
        < expect(found["gpu", None], Profile("a"), Profile("b"))[0]
    )
