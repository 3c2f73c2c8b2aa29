"""The carts of our own move as Gymnasium's do, and both start a new episode when a pole falls."""

import numpy as np
import pytest

from workloads.poles import FARTHEST_M, LONGEST_STEPS, GymnasiumPoles, OwnPoles, moved


def test_our_equations_move_a_cart_as_gymnasium_does():
    pytest.importorskip("gymnasium")
    theirs = GymnasiumPoles(8, seed=1)
    random = np.random.default_rng(0)
    state = theirs.seen.astype(np.float64)
    for _ in range(8):  # no pole falls so soon
        actions = random.integers(0, 2, 8)
        state = moved(state, actions)
        after, fell, counts = theirs.push(actions, random)
        assert not fell.any()
        assert counts.all()
        assert after == pytest.approx(state, abs=1e-5)


@pytest.mark.parametrize("kind", [OwnPoles, GymnasiumPoles])
def test_a_pole_that_is_always_pushed_one_way_falls_and_starts_a_new_episode(kind):
    if kind is GymnasiumPoles:
        pytest.importorskip("gymnasium")
    poles, random = kind(4, 0), np.random.default_rng(0)
    falls = 0
    for _ in range(60):
        _, fell, counts = poles.push(np.ones(4, int), random)
        falls += int((fell & counts).sum())
        assert np.abs(poles.seen[~fell, 0]).max(initial=0) <= FARTHEST_M
    assert falls == len(poles.lengths) >= 16
    assert all(5 < length < 15 for length in poles.lengths)


def test_a_pole_that_stands_long_enough_starts_a_new_episode_without_having_fallen():
    poles, random = OwnPoles(1, 0), np.random.default_rng(0)
    fallen = []
    while not poles.lengths:
        poles._state[:] = 0  # held upright
        fallen.append(bool(poles.push(np.ones(1, int), random)[1][0]))
    assert poles.lengths == [LONGEST_STEPS]
    assert not any(fallen)
