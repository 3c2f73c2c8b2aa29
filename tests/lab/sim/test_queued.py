"""Made-up batches: the same seed makes the same one, and there is something to decide in it."""

from __future__ import annotations

import numpy as np
import pytest

from gpuq.lab.sim.queued import batch_of, made_up
from gpuq.policies.planners.plan import greedy
from gpuq.sim.scenario_builder import Scenario
from tests.sim.small import arrivals, world


def test_the_same_seed_makes_the_same_batch_and_another_another() -> None:
    one, again, other = made_up(3), made_up(3), made_up(4)
    np.testing.assert_array_equal(one.value, again.value)
    assert not np.array_equal(one.value, other.value)


@pytest.mark.parametrize("seed", [1, 2])
def test_there_are_idle_and_busy_devices_and_pairs_to_choose_from(seed: int) -> None:
    batch = made_up(seed)
    assert {slot.idle for slot in batch.slots} == {True, False}
    assert (batch.second >= 0).any()
    assert len(greedy(batch).chosen) > 1


def test_every_second_device_is_busy_and_no_more_wait_than_asked_for() -> None:
    batch = batch_of(Scenario(arrivals(*["light"] * 9), world(4)), seed=1, most=3)
    assert len(batch.jobs) == 3
    assert sorted((len(slot.devices), slot.idle) for slot in batch.slots) == [(1, False), (1, False), (2, True)]
