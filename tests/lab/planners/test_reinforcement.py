"""Planning by a network: the shipped one or a site's own, never worse than the greedy plan."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from gpuq.core.state.actions import Launch
from gpuq.errors import BadInput
from gpuq.lab.planners.game import CHOICES, SIZE, SKIP
from gpuq.lab.planners.network import SHIPPED, PolicyNetwork, load, save
from gpuq.lab.planners.reinforcement import SPEC, played, solve_reinforcement
from gpuq.policies.planners.plan import greedy
from gpuq.settings import Scheduling
from tests.policies.shop import Shop, drawn, seeds, tried, work

NETWORK = load(SHIPPED)


def always(action: int) -> PolicyNetwork:
    """A network that prefers this action whatever it observes."""
    wants = np.zeros(CHOICES + 1, dtype=np.float32)
    wants[action] = 1
    return PolicyNetwork("dqn", "relu", ((np.zeros((SIZE, CHOICES + 1), dtype=np.float32), wants),), {})


@tried
@given(seeds)
def test_plan_fits_and_is_never_worse_than_greedy(seed: int) -> None:
    batch = drawn(seed).batch()
    plan = solve_reinforcement(batch, NETWORK)
    assert batch.allows(plan.chosen)
    assert plan.value >= greedy(batch).value
    assert plan.value >= played(batch, NETWORK).value


def test_bad_network_falls_back_to_the_greedy_plan() -> None:
    batch = drawn(7).batch()
    last = played(batch, always(CHOICES - 1))
    assert batch.allows(last.chosen)
    assert batch.allows(played(batch, always(SKIP)).chosen)
    assert solve_reinforcement(batch, always(SKIP)).value >= greedy(batch).value


def test_policy_starts_jobs_with_shipped_and_with_own_network(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    save(always(0), path)
    for named in ("", str(path)):
        shop = Shop(2, 2)
        shop.submit(*(work(number, "middling", number) for number in range(1, 8)))
        actions = shop.play(SPEC.make(Scheduling(policy="reinforcement", reinforcement_file=named)))
        assert sum(isinstance(action, Launch) for action in actions) == 4


def test_make_refuses_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        SPEC.make(Scheduling(reinforcement_file=str(tmp_path / "none.npz")))
