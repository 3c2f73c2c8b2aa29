"""The world as a record measured it."""

import math

import pytest

from gpuq.core.state.attempt import Ending
from gpuq.learn.interference.law import slowdown as law
from gpuq.sim.traces.history import site_history
from gpuq.sim.world import World
from gpuq.sim.worlds.measured import measured_world
from tests.sim.rows import Ended, ended
from tests.support.nouns import a_device

DEVICES = (a_device("h/0", host="h", type="GPU"),)


def world(*rows: Ended) -> World:
    return measured_world(["a", "b"], site_history(DEVICES, rows).outcomes, DEVICES, 60.0)


def test_slowdown_of_a_pair_is_the_median_per_direction() -> None:
    runs = [ended(number, "a", beside=(9, "b", slowdown, 1.0)) for number, slowdown in enumerate((1.2, 1.4, 3.0))]
    found = world(*runs, ended(9, "b", beside=(1, "a", 1.05, 1.0)))
    assert found.slowdown("a", ["b"]) == pytest.approx(1.4)
    assert found.slowdown("b", ["a"]) == pytest.approx(1.05)


def test_unmeasured_pair_costs_what_the_contention_model_says() -> None:
    found = world(ended(1, "a", utilization=70.0), ended(2, "b", utilization=80.0))
    assert found.slowdown("a", ["b"]) == law(70, 80)
    assert found.slowdown("a", ["a"]) > 1
    assert any("0 of 4 directed pairs" in note for note in found.notes)


def test_a_kind_whose_utilisation_is_unknown_wants_all_of_a_device() -> None:
    found = world(ended(1, "a", utilization=None), ended(2, "b"))
    assert found.workload("a").utilization_pct == 100
    assert any("1 kinds was never measured" in note for note in found.notes)


def test_a_pair_that_ran_out_of_memory_does_not_fit() -> None:
    crash = ended(1, "a", beside=(2, "b", None, 1.0), ending=Ending.OUT_OF_MEMORY, exit_code=1)
    found = world(crash, ended(2, "b"))
    assert math.isinf(found.slowdown("a", ["b"]))
    assert math.isinf(found.slowdown("b", ["a"]))


def test_peaks_are_those_of_runs_alone() -> None:
    found = world(ended(1, "a", utilization=80.0), ended(2, "a", utilization=40.0, beside=(3, "b", 1.2, 1.0)))
    assert found.workload("a").utilization_pct == 80
