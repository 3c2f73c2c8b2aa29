"""Proportionally fair shares of time, and rounds at whose end jobs that had less may replace others."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given

from gpuq.core.measuring.measurement import Measurement
from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.actions import Launch, Stop
from gpuq.core.state.apply import apply
from gpuq.core.state.attempt import Ending
from gpuq.core.state.events import Exited
from gpuq.policies import registry
from gpuq.policies.planners.convex import by_priority, shares
from gpuq.settings import Scheduling
from tests.policies.shop import NOW, Shop, drawn, seeds, tried, work

pytest.importorskip("scipy")


def test_equal_jobs_get_equal_shares() -> None:
    shop = Shop(1)
    shop.submit(*(work(n, "heavy", hours=n) for n in range(1, 5)))
    assert list(shares(shop.batch())) == pytest.approx([0.25] * 4, abs=0.03)


def test_higher_priority_gets_a_larger_share() -> None:
    shop = Shop(1)
    shop.submit(work(1, "heavy"), work(2, "heavy", priority=1))
    high, low = shares(shop.batch())
    assert high > 5 * low


def test_jobs_that_may_share_run_together_all_the_time() -> None:
    shop = Shop(1)
    shop.submit(work(1), work(2))
    batch = shop.batch()
    assert dict(zip(batch.second.tolist(), shares(batch), strict=True)) == pytest.approx({-1: 0, 1: 1}, abs=1e-6)


@tried
@given(seeds)
def test_shares_fit_the_capacity_and_every_job_has_one(seed: int) -> None:
    batch = drawn(seed).batch()
    if not batch.size:
        return
    share = shares(batch)
    used = np.zeros(len(batch.capacity))
    np.add.at(used, batch.rows, batch.counts * share[:, None])
    assert (used <= batch.capacity + 1e-6).all()
    able = set(batch.first.tolist()) | set(batch.second.tolist()) - {-1}
    assert all(used[job] > 0 for job in able)


def test_job_that_never_ran_comes_first() -> None:
    shop = Shop(1)
    shop.submit(work(1, "heavy", served_s=500.0), work(2, "heavy"))
    plan = by_priority(shop.batch(), shop.context())
    assert [plan.batch.jobs[plan.batch.first[option]].id for option in plan.chosen] == [2]


def starts_and_stops(actions: list[Any]) -> tuple[list[int], list[int]]:
    """(ids of jobs that start, ids of jobs that are stopped)."""
    starts = [action.attempt.id.job for action in actions if isinstance(action, Launch)]
    return starts, [action.attempt.job for action in actions if isinstance(action, Stop)]


def convex(preemption: bool = True) -> Any:
    return registry.make(Scheduling(policy="convex", preemption=preemption, plan_every_s=360.0))


def shop_with_a_long_job(**changes: Any) -> Shop:
    shop = Shop(1, limits=Limits(stale_after_s=float("inf")))
    shop.start(work(1, "heavy", 50, submitted_at=NOW, **changes), "h0/0")
    return shop


def test_preemptible_job_is_stopped_at_the_end_of_a_round() -> None:
    shop, policy = shop_with_a_long_job(preemptible=True), convex()
    assert starts_and_stops(shop.play(policy)) == ([], [])
    shop.submit(work(2, "heavy", submitted_at=NOW + 10))
    assert starts_and_stops(shop.play(policy, NOW + 100)) == ([], [])  # the round is not over
    assert starts_and_stops(shop.play(policy, NOW + 400)) == ([], [1])
    attempt = next(iter(shop.state.attempts))
    apply(shop.state, Exited(attempt, NOW + 401, Ending.STOPPED, None, "", Measurement()), NOW + 401)
    shop.play(policy, NOW + 401)
    assert starts_and_stops(shop.play(policy, NOW + 402))[1] == []
    assert {a.job for a in shop.state.attempts} == {2}


@pytest.mark.parametrize(("preemptible", "preemption"), [(False, True), (True, False)])
def test_no_stop_without_preemptible_job_or_setting(preemptible: bool, preemption: bool) -> None:
    shop, policy = shop_with_a_long_job(preemptible=preemptible), convex(preemption)
    shop.submit(work(2, "heavy", submitted_at=NOW + 10))
    for later in (0, 400, 800):
        assert starts_and_stops(shop.play(policy, NOW + later)) == ([], [])


def test_no_stop_for_a_job_that_fits_beside_the_residents() -> None:
    shop, policy = Shop(2, limits=Limits(stale_after_s=float("inf"))), convex()
    shop.start(work(1, "heavy", 50, submitted_at=NOW, preemptible=True), "h0/0")
    shop.submit(work(2, "heavy", submitted_at=NOW + 10))
    assert starts_and_stops(shop.play(policy, NOW + 400)) == ([2], [])
