"""The environment is Gymnasium's, and what it rewards is what the plan gains."""

from __future__ import annotations

import pytest

from gpuq.policies.planners.batch import Batch
from tests.policies.shop import Shop, drawn

pytest.importorskip(
    "gymnasium", reason="Gymnasium is in the extra `reinforcement`, which the locked environment leaves out"
)

from gymnasium.utils.env_checker import check_env

from gpuq.lab.sim.environment import PlanningEnvironment
from gpuq.policies.planners.plan import greedy


def batch(seed: int) -> Batch:
    return drawn(seed).batch()


def test_it_is_a_gymnasium_environment() -> None:
    check_env(PlanningEnvironment(batch, range(5, 15)), skip_render_check=True)


def test_an_episode_returns_what_the_plan_is_worth_against_greed() -> None:
    world = PlanningEnvironment(batch, range(100))
    world.reset(seed=1)
    for _ in range(20):
        _, info = world.reset()
        total, over = 0.0, False
        while not over:
            assert info["action_mask"][0]
            _, reward, over, _, info = world.step(int(world.np_random.integers(9)))
            total += reward
        assert total == pytest.approx(info["worth"] / info["greedy"] - 1)


def test_to_play_greedily_earns_nothing() -> None:
    world = PlanningEnvironment(batch, [7])
    _, info = world.reset(seed=1)
    assert info["greedy"] == pytest.approx(greedy(batch(7)).value)
    over = False
    while not over:
        _, reward, over, _, _ = world.step(0)
        assert reward == pytest.approx(0)


def test_a_batch_with_nothing_to_decide_is_passed_over() -> None:
    world = PlanningEnvironment(lambda seed: Shop(1).batch() if seed == 0 else batch(7), [0, 1])
    for seed in range(5):
        _, info = world.reset(seed=seed)
        assert info["action_mask"].any()
