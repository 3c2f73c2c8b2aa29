"""The genetic algorithm: never worse than greedy, repeatable."""

import pytest
from hypothesis import given

from gpuq.lab.planners.genetic import solve_genetic
from gpuq.policies.planners.plan import greedy
from tests.policies.shop import Shop, best_of_all, drawn, seeds, tried, work


@tried
@given(seeds)
def test_plan_fits_and_lies_between_greedy_and_optimum(seed: int) -> None:
    batch = drawn(seed).batch()
    plan = solve_genetic(batch, seed, generations=2)
    assert batch.allows(plan.chosen)
    assert greedy(batch).value <= plan.value * (1 + 1e-12)
    assert plan.value <= best_of_all(batch) * (1 + 1e-12)


def test_same_seed_gives_same_plan() -> None:
    batch = drawn(7).batch()
    assert list(solve_genetic(batch, 3).chosen) == list(solve_genetic(batch, 3).chosen)


def test_gang_of_higher_value_replaces_the_greedy_choice() -> None:
    shop = Shop(2)
    shop.submit(work(1, "heavy", 1.0), work(2, "heavy", 10.0), work(3, "heavy", 0.6, device_count=2))
    assert solve_genetic(shop.batch()).value == pytest.approx(1 / 0.6)
