"""The relaxation bounds every plan and excludes options that no better plan contains."""

import numpy as np
import pytest
from hypothesis import given

from gpuq.policies.planners import relaxed
from gpuq.policies.planners.plan import greedy
from gpuq.policies.planners.relaxed import relax
from tests.policies.shop import Shop, best_of_all, drawn, seeds, tried, work

pytest.importorskip("scipy")


@tried
@given(seeds)
def test_bound_is_above_the_optimum_and_shares_fit(seed: int) -> None:
    batch = drawn(seed).batch()
    start = greedy(batch)
    found = relax(batch, start.chosen)
    if not batch.size:
        return
    assert found is not None
    assert found.bound >= best_of_all(batch) * (1 - 1e-9)
    assert found.shares @ batch.value == pytest.approx(found.bound)
    used = np.zeros(len(batch.capacity))
    np.add.at(used, batch.rows, batch.counts * found.shares[:, None])
    assert (used <= batch.capacity + 1e-6).all()


@tried
@given(seeds)
def test_better_plans_contain_only_options_that_are_kept(seed: int) -> None:
    batch = drawn(seed).batch()
    start = greedy(batch)
    found = relax(batch, start.chosen)
    best = best_of_all(batch)
    if found is None or best <= start.value * (1 + 1e-6):
        return
    hidden = ~found.worth_a_look(start.value)
    batch.value[hidden] = 0.0
    assert best_of_all(batch) == pytest.approx(best)


def test_bound_holds_before_all_pairs_are_priced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relaxed, "_FIRST_PAIRS", 0)
    monkeypatch.setattr(relaxed, "_MOST_ROUNDS", 1)
    shop = Shop(2)
    shop.submit(*(work(n, hours=n) for n in range(1, 7)))
    batch = shop.batch()
    found = relax(batch, np.empty(0, dtype=np.intp))
    assert found is not None
    assert found.bound >= best_of_all(batch) - 1e-9
    assert found.bound > found.shares @ batch.value
