import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import split_costs
from gpuq.split.chunks import Chunks


def play(groups, seconds_per_group, speeds):
    """Devices of constant or varying speed in virtual time; gives (chunks, when each device ended)."""
    chunks = Chunks(groups, list(speeds))
    clock = [0.0] * len(speeds)
    waiting = set(range(len(speeds)))
    while waiting:
        device = min(waiting, key=lambda one: clock[one])
        taken = chunks.take(device)
        if taken is None:
            waiting.remove(device)
            continue
        took = 0.0003 + sum(seconds_per_group(device, group) for group in range(*taken))
        clock[device] += took
        chunks.finished(device, *taken, took)
    return chunks, clock


@given(st.integers(1, 3000), st.lists(st.floats(1e-5, 1e-2), min_size=1, max_size=3), st.booleans())
def test_every_group_is_run_exactly_once(groups, seconds, known):
    speeds = [1 / one if known else None for one in seconds]
    chunks, _ = play(groups, lambda device, _: seconds[device], speeds)
    run = sorted((first, end) for done in chunks.done for first, end, _ in done)
    covered = [group for first, end in run for group in range(first, end)]
    assert covered == list(range(chunks.first_groups, groups))


def test_unequal_devices_end_together():
    chunks, clock = play(20_000, lambda device, _: (1e-4, 7e-4)[device], (None, None))
    ideal = 20_000 / (1 / 1e-4 + 1 / 7e-4)
    assert max(clock) / ideal < 1.03
    assert abs(chunks.share(0) - 7 / 8) < 0.03


def test_an_irregular_launch_ends_within_a_tenth_of_the_best():
    def cost(device, group):
        return (1e-4, 3e-4)[device] * (1 + 4 * group / 20_000)

    _, clock = play(20_000, cost, (None, None))
    ideal = sum(cost(0, group) for group in range(20_000)) * 0.75
    assert max(clock) / ideal < 1.1


def test_known_speeds_do_not_let_the_slower_device_run_into_a_dear_part_at_once():
    def cost(device, group):
        return (1e-5, 7e-5)[device] * (40 if 10_000 <= group < 18_000 else 1)

    chunks, clock = play(20_000, cost, (100_000.0, 14_000.0))
    ideal = sum(cost(0, group) for group in range(20_000)) * 7 / 8
    assert max(clock) / ideal < 1.1
    assert sum(len(done) for done in chunks.done) < 200


def test_a_whole_run_on_one_device_is_one_piece():
    chunks = Chunks(1000, [None])
    assert (chunks.first_groups, chunks.take(0)) == (0, (0, 1000))


def test_a_device_that_would_end_late_takes_nothing():
    chunks = Chunks(10, [1000.0, 0.1])
    assert chunks.take(1) is None
    assert chunks.take(0) is not None


@pytest.mark.parametrize("seconds", [0.1, 1.0])
def test_with_the_costs_of_the_corpus_chunks_come_close_to_the_best_static_share(seconds):
    found = split_costs.played(split_costs.stored(), seconds).values()
    ratios = [row["guided / best"] for row in found]
    assert len(ratios) > 100
    assert np.median(ratios) <= 1.05
    assert np.quantile(ratios, 0.95) <= 1.15
    assert np.median([row["efficiency"] for row in found]) >= 0.92
    assert np.quantile([row["history off"] for row in found], 0.95) <= 3


def test_a_chunk_is_taken_ahead_except_near_the_end():
    chunks = Chunks(1000, [100.0, 100.0])
    assert chunks.take_ahead(0) is not None
    chunks.left = [(900, 1000)]
    assert chunks.take_ahead(0) is None
    assert chunks.take(0) is not None


def test_nothing_is_left_to_a_device_that_is_away():
    chunks = Chunks(20, [0.1, 1000.0])
    assert chunks.leave(1)
    taken = []
    while (chunk := chunks.take(0)) is not None:
        chunks.finished(0, *chunk, 10.0)
        taken.append(chunk)
    assert sum(end - first for first, end in taken) == 18


def test_a_device_whose_cores_went_away_takes_what_the_others_left_to_it():
    chunks = Chunks(10, [0.1, 1000.0])
    assert chunks.take(0) is None
    assert not chunks.leave(1)
    assert chunks.take(1) is not None


def test_a_probe_runs_a_few_groups_at_several_places_and_no_more():
    chunks = Chunks(10_000, [None, None], only_probe=True)
    taken = []
    while (chunk := chunks.take(0)) is not None:
        chunks.finished(0, *chunk, 0.01)
        taken.append(chunk)
    assert len(taken) == 3
    assert taken[-1][0] - taken[0][0] > 5_000
    assert chunks.take(1)[0] == taken[0][1]
    assert sum(end - first for first, end in taken) < 200
