"""The integer program finds the optimum; without enough time it uses what it has."""

import pytest
from hypothesis import given

from gpuq.policies.planners import integer
from gpuq.policies.planners.integer import solve_integer
from gpuq.policies.planners.linear import solve_linear
from gpuq.policies.planners.plan import greedy
from tests.policies.shop import Shop, best_of_all, drawn, seeds, tried, work

pytest.importorskip("scipy")


@tried
@given(seeds)
def test_plan_is_optimal_and_its_bound_proves_it(seed: int) -> None:
    batch = drawn(seed).batch()
    plan = solve_integer(batch, 10.0)
    assert batch.allows(plan.chosen)
    assert plan.value == pytest.approx(best_of_all(batch))
    assert plan.bound is None or plan.bound == pytest.approx(plan.value)


def test_plan_at_the_time_limit_is_no_worse_than_the_linear_one() -> None:
    shop = Shop(4, 4)
    shop.submit(*(work(n, ("light", "heavy")[n % 2], hours=1 + n % 7, device_count=1 + n % 3) for n in range(1, 40)))
    batch = shop.batch()
    plan = solve_integer(batch, 0.0)
    assert batch.allows(plan.chosen)
    assert plan.value >= solve_linear(batch).value
    assert plan.bound is not None
    assert plan.bound >= plan.value


def test_greedy_plan_is_used_if_the_solver_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(integer, "relax", lambda *_: None)
    shop = Shop(1)
    shop.submit(work(1))
    batch = shop.batch()
    assert solve_integer(batch, 1.0).value == greedy(batch).value
