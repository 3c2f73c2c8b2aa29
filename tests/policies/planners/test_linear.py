"""The rounded linear program: never worse than greedy, never above its bound."""

import numpy as np
import pytest
from hypothesis import given

from gpuq.core.scheduling.limits import Limits
from gpuq.policies.planners import linear
from gpuq.policies.planners.linear import rounded, solve_linear
from gpuq.policies.planners.plan import greedy
from tests.policies.shop import Shop, best_of_all, drawn, seeds, tried, work

pytest.importorskip("scipy")


@tried
@given(seeds)
def test_plan_fits_and_lies_between_greedy_and_bound(seed: int) -> None:
    batch = drawn(seed).batch()
    plan = solve_linear(batch)
    assert batch.allows(plan.chosen)
    assert plan.value >= greedy(batch).value
    assert plan.bound is None or plan.value <= plan.bound * (1 + 1e-9)


def test_finds_pairs_that_greedy_misses() -> None:
    """Only light jobs may share with the heavy one. Greedy pairs them otherwise, which leaves two jobs without a partner."""
    shop = Shop(2, limits=Limits(max_slowdown=1.12))
    shop.submit(work(1, "light", 1.0), work(2, "light", 1.01), work(3, "heavy", 1.1), work(4, "middling", 1.02))
    batch = shop.batch()
    assert solve_linear(batch).value == pytest.approx(best_of_all(batch))
    assert greedy(batch).value < best_of_all(batch)


def test_fractions_that_do_not_fit_are_rounded_down() -> None:
    shop = Shop(1)
    shop.submit(work(1, "heavy"), work(2, "heavy"))
    batch = shop.batch()
    assert len(rounded(batch, np.array([0.5, 0.5])).chosen) == 1


def test_greedy_plan_is_used_if_the_solver_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "relax", lambda *_: None)
    shop = Shop(1)
    shop.submit(work(1))
    plan = solve_linear(shop.batch())
    assert len(plan.chosen) == 1
    assert plan.bound is None
