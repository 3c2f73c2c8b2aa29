"""Measured tables as the workloads of a world."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuq.errors import BadInput
from gpuq.lab.measured import PairMeasurement, SingleMeasurement
from gpuq.lab.worlds.from_tables import measured_workloads

SINGLES = [
    SingleMeasurement("V100", job, job, 8, utilization) for job, utilization in (("a", 40.0), ("b", 90.0), ("c", 60.0))
]


def pair(a: str, b: str, slow_a: float | None = 1.2, slow_b: float | None = 1.3) -> PairMeasurement:
    return PairMeasurement("V100", "mps", a, b, slow_a, slow_b)


ALL = [pair("a", "a"), pair("b", "b"), pair("c", "c"), pair("a", "b"), pair("a", "c"), pair("b", "c")]


def test_both_directions_are_kept_apart() -> None:
    workload_set = measured_workloads("t", SINGLES, ALL)
    assert (workload_set.pairs["a", "b"], workload_set.pairs["b", "a"]) == (1.2, 1.3)
    assert workload_set.pairs["a", "a"] == pytest.approx(1.25), "two readings of one thing"
    assert workload_set.workloads["a"].utilization_pct == 40
    assert (workload_set.device_type, workload_set.sharing) == ("V100", "mps")


def test_a_job_with_a_missing_pair_is_left_out_and_named() -> None:
    workload_set = measured_workloads("t", SINGLES, [*ALL[:5], pair("b", "c", 1.2, None), pair("a", "c")])
    assert set(workload_set.workloads) in ({"a", "b"}, {"a", "c"})
    assert "left out:" in workload_set.notes[0]


@given(st.sets(st.sampled_from([(x, y) for x in "abcd" for y in "abcd"])))
def test_every_pair_of_the_set_is_measured(known: set[tuple[str, str]]) -> None:
    pairs = [pair(x, y, 1.5, None) for x, y in sorted(known)]
    try:
        workload_set = measured_workloads("t", [], pairs)
    except BadInput:
        return
    names = set(workload_set.workloads)
    assert set(workload_set.pairs) == {(x, y) for x in names for y in names}
    assert set(workload_set.pairs) <= known


def test_set_without_a_pair_in_both_directions_is_refused() -> None:
    with pytest.raises(BadInput, match="of no job was every pair measured"):
        measured_workloads("t", SINGLES, [pair("a", "b", 1.2, None)])


@pytest.mark.parametrize(("value", "unit"), [(0.8, "speeds"), (120.0, "percent")])
def test_table_of_another_unit_is_refused(value: float, unit: str) -> None:
    """Speeds taken for slowdowns would save the more device time the worse the pairs are."""
    pairs = [pair(a, b, value, value) for a, b in (("a", "a"), ("a", "b"), ("b", "b"))]
    with pytest.raises(BadInput, match=f"these look like {unit}"):
        measured_workloads("t", SINGLES, pairs)


def test_a_partner_makes_no_job_faster() -> None:
    workload_set = measured_workloads("t", SINGLES, [pair("a", "a"), pair("b", "b"), pair("a", "b", 0.97, 1.4)])
    assert (workload_set.pairs["a", "b"], workload_set.pairs["b", "a"]) == (1.0, 1.4)


def test_two_types_of_device_are_refused() -> None:
    with pytest.raises(BadInput, match="these pairs have 2") as wrong:
        measured_workloads("t", SINGLES, [*ALL, PairMeasurement("P100", "mps", "a", "a", 1.5, 1.5)])
    assert "one device_type" in wrong.value.fix


def test_unmeasured_utilisation_follows_from_a_job_beside_itself() -> None:
    workload_set = measured_workloads("t", [], [pair("a", "a", 1.6, 1.6), pair("b", "b", 2.6, 2.6), pair("a", "b")])
    assert workload_set.workloads["a"].utilization_pct == pytest.approx(80)
    assert workload_set.workloads["b"].utilization_pct == 100, "no job wants more than all"


def test_pairs_that_did_not_fit_have_infinite_slowdown() -> None:
    pairs = [pair("a", "a", 1.2, 1.2), pair("a", "b", 1.5, 1.5), pair("a", "c", 1.1, 1.1), pair("c", "c", 1.0, 1.0)]
    workload_set = measured_workloads("t", [], [*pairs, pair("b", "c", 1.4, 1.4)], never_fit=[("b", "b")])
    assert math.isinf(workload_set.pairs["b", "b"])
    assert workload_set.workloads["b"].utilization_pct == pytest.approx(90), "1.5 beside 60%, 1.4 beside 50%"
    assert any("do not fit: b" in note for note in workload_set.notes)
