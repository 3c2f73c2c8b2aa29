"""The policy plays what it is given, its own or the site's, and is never worse than greedy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from gpuq.core.state.actions import Launch
from gpuq.errors import BadInput
from gpuq.policies.planners.plan import greedy
from gpuq.policies.planners.reinforced.game import CHOICES, SIZE, SKIP
from gpuq.policies.planners.reinforced.network import SHIPPED, PolicyNetwork, load, to_json
from gpuq.policies.planners.reinforcement import SPEC, played, solve_reinforcement
from gpuq.settings import Scheduling
from tests.policies.shop import Shop, drawn, seeds, tried, work

NETWORK = load(SHIPPED)


def always(action: int) -> PolicyNetwork:
    """One that wants the same whatever it sees."""
    wants = np.zeros(CHOICES + 1, dtype=np.float32)
    wants[action] = 1
    return PolicyNetwork("dqn", "relu", ((np.zeros((SIZE, CHOICES + 1), dtype=np.float32), wants),), {})


@tried
@given(seeds)
def test_its_plan_fits_and_is_never_worse_than_greedy(seed: int) -> None:
    batch = drawn(seed).batch()
    plan = solve_reinforcement(batch, NETWORK)
    assert batch.allows(plan.chosen)
    assert plan.value >= greedy(batch).value
    assert plan.value >= played(batch, NETWORK).value


def test_one_that_plays_badly_does_no_harm() -> None:
    batch = drawn(7).batch()
    last = played(batch, always(CHOICES - 1))
    assert batch.allows(last.chosen)
    assert batch.allows(played(batch, always(SKIP)).chosen)
    assert solve_reinforcement(batch, always(SKIP)).value >= greedy(batch).value


def test_the_policy_starts_jobs_with_the_shipped_network_and_with_a_sites_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(to_json(always(0)))
    for named in ("", str(path)):
        shop = Shop(2, 2)
        shop.submit(*(work(number, "middling", number) for number in range(1, 8)))
        actions = shop.play(SPEC.make(Scheduling(policy="reinforcement", reinforcement_file=named)))
        assert sum(isinstance(action, Launch) for action in actions) == 4


def test_a_wrong_file_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        SPEC.make(Scheduling(reinforcement_file=str(tmp_path / "none.json")))
