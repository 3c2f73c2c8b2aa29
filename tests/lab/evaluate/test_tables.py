"""Measured tables in the form that learning takes."""

from __future__ import annotations

import math

import pytest

from gpuq.lab.evaluate.tables import directed, profile_of
from gpuq.lab.measured import PairMeasurement, SingleMeasurement
from gpuq.learn.interference import Profile

SINGLES = [
    SingleMeasurement("gpu", "a", "cnn", 8, utilization_pct=50.0, steps_per_s=1.0),
    SingleMeasurement("gpu", "b", ""),
]


def test_a_single_becomes_a_profile_and_blank_stays_unknown():
    assert profile_of(SINGLES[0]) == Profile("a", "cnn", 50.0, None, 3.0, 0.0)
    assert profile_of(SINGLES[1]) == Profile("b")


def test_memory_and_power_alone_are_known_of_a_kind_as_of_the_baselines():
    profile = profile_of(SingleMeasurement("gpu", "a", "cnn", peak_memory_mib=1024.0, power_w=150.0))

    assert profile.memory_log == pytest.approx(math.log(1024))
    assert profile.power_log == pytest.approx(math.log(150))


def test_each_row_gives_both_directions_and_blanks_give_none():
    found = directed(
        [PairMeasurement("gpu", "mps", "a", "b", 1.2, None), PairMeasurement("gpu", "mps", "b", "a", 1.4, 1.3)]
    )

    assert found == {("gpu", "mps"): {("a", "b"): [1.2, 1.3], ("b", "a"): [1.4]}}


def test_types_of_device_and_ways_of_sharing_never_mix():
    pairs = [
        PairMeasurement("gpu", "mps", "a", "b", 1.2, 1.3),
        PairMeasurement("gpu", None, "a", "b", 3.0, 3.0),
        PairMeasurement("other", "mps", "a", "c", 2.0, 2.0),
    ]

    assert directed(pairs) == {
        ("gpu", "mps"): {("a", "b"): [1.2], ("b", "a"): [1.3]},
        ("gpu", None): {("a", "b"): [3.0], ("b", "a"): [3.0]},
        ("other", "mps"): {("a", "c"): [2.0], ("c", "a"): [2.0]},
    }
