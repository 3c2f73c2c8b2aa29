"""Foreign load summed over looks, and what it is on a GPU."""

from __future__ import annotations

import pytest
from gpuq_workers.measuring.foreign import ForeignLoad, with_foreign_load_of_gpus

from gpuq.adapters.devices import ResidentUsage
from gpuq.core.state.device import Reading

UNKNOWN = ResidentUsage(None, None)


def gpu(used_pct: float | None, *, visible: bool | None = True) -> Reading:
    return Reading(0.0, 1000, 50.0, 10, used_pct, processes_visible=visible)


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


@pytest.mark.parametrize(
    ("readings", "expected"),
    [
        ([gpu(0.0)], 0.0),
        ([gpu(30.0)], 0.3),
        ([gpu(30.0), gpu(40.0)], 0.4),
        ([gpu(None)], 1.0),
        ([gpu(None, visible=False)], None),
        ([gpu(20.0, visible=False)], 0.2),
        ([], None),
    ],
    ids=["none", "one", "the worse of two", "there, but not read", "all hidden", "hidden, there before", "not read"],
)
def test_on_a_gpu_a_job_is_held_back_for_as_long_as_others_use_it(readings: list[Reading], expected: float | None):
    usage = with_foreign_load_of_gpus(UNKNOWN, readings)
    assert (usage.foreign_load, usage.held_back) == (expected, expected)
