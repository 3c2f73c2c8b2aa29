"""Foreign load summed over looks."""

from __future__ import annotations

import pytest
from gpuq_workers.measuring.foreign import ForeignLoad


def test_noise_cancels_and_a_short_command_is_not_considerable():
    foreign = ForeignLoad()
    for load in (0.05, -0.05, 0.02, -0.02, 0.2):
        foreign.add(load, 0.0)
    assert foreign.mean_load == pytest.approx(0.04)
    assert not foreign.is_considerable
    foreign.add(1.0, 0.3)
    assert foreign.is_considerable
    assert foreign.mean_held_back == pytest.approx(0.05)


def test_unknown_waiting_counts_as_the_whole_load():
    foreign = ForeignLoad()
    foreign.add(0.5, None)
    assert foreign.mean_held_back == 0.5
    foreign.add(0.5, 0.1)
    assert foreign.mean_held_back == pytest.approx(0.3)
    foreign = ForeignLoad()
    foreign.add(3.0, None)
    assert foreign.mean_held_back == 1.0
    foreign = ForeignLoad()
    foreign.add(None, 0.1)
    assert (foreign.mean_load, foreign.mean_held_back) == (None, None)


def test_held_back_is_at_most_the_mean_load_even_if_waits_are_counted_late():
    foreign = ForeignLoad()
    for load, waited in ((1.0, 0.0), (0.0, 1.0)):
        foreign.add(load, waited)
    assert foreign.mean_held_back == pytest.approx(0.5)
    foreign = ForeignLoad()
    foreign.add(0.2, 0.9)
    assert foreign.mean_held_back == pytest.approx(0.2), "the rest it waited for its own threads"
