"""Whose energy it was: nothing is lost, nothing is made, and what is not known is said to be so."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuq.adapters.nvml.energy import DeviceEnergy, EnergyPart, share_out

JOULES = st.floats(0, 1e6)
SHARES = st.dictionaries(st.integers(0, 9), st.none() | st.floats(0, 100), min_size=1, max_size=5)


@given(JOULES, st.floats(0, 1), SHARES)
def test_the_parts_of_all_parties_add_up_to_the_whole(joules: float, idle: float, shares: dict[int, float | None]):
    parts = share_out(EnergyPart(joules, joules * idle), shares)
    assert parts.keys() == shares.keys()
    assert math.isclose(sum(part.joules for part in parts.values()), joules, rel_tol=1e-9, abs_tol=1e-9)
    assert math.isclose(sum(part.idle or 0 for part in parts.values()), joules * idle, rel_tol=1e-9, abs_tol=1e-9)
    assert all(part.joules >= (part.idle or 0) * (1 - 1e-9) for part in parts.values())


def test_active_energy_is_divided_by_use_and_idle_energy_evenly():
    parts = share_out(EnergyPart(1000, 200), {"a": 75.0, "b": 25.0})
    assert parts == {"a": EnergyPart(700, 100), "b": EnergyPart(300, 100)}


@pytest.mark.parametrize("shares", [{"a": None, "b": 90.0}, {"a": 0.0, "b": 0.0}])
def test_energy_is_divided_evenly_if_use_is_zero_or_unknown(shares: dict[str, float | None]):
    assert share_out(EnergyPart(1000, None), shares) == {"a": EnergyPart(500, None), "b": EnergyPart(500, None)}


def test_no_parties_get_no_energy():
    assert share_out(EnergyPart(1000, 200), {}) == {}


def test_the_idle_part_is_known_once_the_device_was_seen_empty():
    device = DeviceEnergy()
    assert device.look(0, 1000, 300, empty=False) is None
    assert device.look(1, 1300, 300, empty=False) == EnergyPart(300, None)
    device.look(2, 1380, 80, empty=True)
    device.look(3, 1450, 70, empty=True)
    assert device.look(5, 1850, 300, empty=False) == EnergyPart(400, 140)


def test_without_a_counter_the_mean_power_is_used_for_ten_seconds():
    device = DeviceEnergy()
    device.look(0, None, 100, empty=False)
    assert device.look(2, None, 300, empty=False) == EnergyPart(400, None)
    assert device.look(60, None, 300, empty=False) is None


def test_a_reset_counter_gives_no_energy():
    device = DeviceEnergy()
    device.look(0, 5000, 100, empty=False)
    assert device.look(1, 7, 100, empty=False) is None
    assert device.look(2, 57, 100, empty=False) == EnergyPart(50, None)
