"""The plan holds for some minutes; jobs that are submitted meanwhile are packed after it."""

from typing import Any

import pytest

from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.actions import Launch
from gpuq.policies.planners.batch import Batch
from gpuq.policies.planners.hybrid import Hybrid
from gpuq.policies.planners.plan import Plan, greedy
from gpuq.settings import Scheduling
from tests.policies.shop import NOW, Shop, work

pytest.importorskip("scipy")


class CountingPlanner:
    """The greedy planner, with a list of the batches that it planned."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def __call__(self, batch: Batch) -> Plan:
        self.batches.append(batch)
        return greedy(batch)


def shop_of(*devices: int, **limits: Any) -> Shop:
    return Shop(*devices, limits=Limits(stale_after_s=float("inf"), **limits))


def starts(actions: list[Any]) -> list[int]:
    return [action.attempt.id.job for action in actions if isinstance(action, Launch)]


def test_replans_only_when_the_plan_is_old() -> None:
    shop, planner = shop_of(1), CountingPlanner()
    policy = Hybrid(Scheduling(plan_every_s=60), planner)
    shop.play(policy)
    assert not planner.batches  # no job waits
    shop.submit(work(1, "heavy"), work(2, "heavy"))
    for later in (0, 1, 59):
        shop.play(policy, NOW + later)
    assert [len(batch.jobs) for batch in planner.batches] == [2, 1]  # two waves
    shop.play(policy, NOW + 61)
    assert len(planner.batches) == 3


def test_plan_treats_all_devices_as_idle() -> None:
    shop, planner = shop_of(2), CountingPlanner()
    shop.start(work(9, "heavy"), "h0/0")
    shop.submit(work(1, "heavy"))
    shop.play(Hybrid(Scheduling(), planner))
    assert sum(slot.idle and len(slot.devices) for slot in planner.batches[0].slots) == 2


def test_first_wave_starts_first_and_partners_join() -> None:
    """Under this budget `middling` may share with a light job only, and `heavy` with none."""
    shop = shop_of(2, max_slowdown=1.08)
    shop.submit(work(1, "middling", 0.1), work(2, "heavy", 0.11), work(3, "light", 1), work(4, "light", 9))
    policy = Hybrid(Scheduling())
    assert sorted(starts(shop.play(policy))) == [1, 2]
    shop.play(policy, NOW + 1)
    beside = [{a.id.job for a in snapshot.residents} for snapshot in shop.context().snapshots]
    assert {1, 3} in beside


def test_job_submitted_after_the_plan_is_packed() -> None:
    shop = shop_of(2)
    shop.submit(work(1, "heavy"))
    policy = Hybrid(Scheduling())
    assert starts(shop.play(policy)) == [1]
    shop.submit(work(2, "heavy"))
    assert starts(shop.play(policy, NOW + 1)) == [2]


def test_planned_partner_that_has_ended_is_ignored() -> None:
    shop = shop_of(1)
    shop.submit(work(1), work(2))
    policy = Hybrid(Scheduling())
    policy._partner, policy._order, policy._planned_at = {2: 77}, [2, 78], NOW  # type: ignore[dict-item, list-item]
    assert starts(shop.play(policy)) == [2]
