"""A plan becomes proposals that the core admits, none with a device or a job twice."""

import builtins
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from gpuq.core.scheduling.policy import propose_nothing
from gpuq.core.state.actions import Launch
from gpuq.errors import BadInput
from gpuq.policies import registry
from gpuq.policies.planners.plan import Plan, complete, greedy, planner
from gpuq.settings import Scheduling
from tests.policies.shop import Shop, best_of_all, drawn, seeds, tried, work

NONE = np.empty(0, dtype=np.intp)
PLANNERS = ("annealing", "convex", "genetic", "hybrid", "integer", "linear")


@tried
@given(seeds)
def test_all_proposals_of_a_plan_are_admitted(seed: int) -> None:
    shop = drawn(seed)
    plan = greedy(shop.batch())
    proposals = list(plan.proposals())
    assert plan.batch.allows(plan.chosen)
    assert len(proposals) == len(plan.chosen)
    launches = [action for action in shop.play(lambda _: iter(proposals)) if isinstance(action, Launch)]
    assert len(launches) == len(proposals)
    devices = Counter(device for launch in launches for device in launch.attempt.devices)
    assert all(count == 1 for count in devices.values())


@tried
@given(seeds)
def test_greedy_plan_is_maximal_and_no_better_than_the_optimum(seed: int) -> None:
    batch = drawn(seed).batch()
    plan = greedy(batch)
    assert not batch.fit(np.arange(batch.size), batch.left(plan.chosen)).any()
    assert plan.value <= best_of_all(batch) * (1 + 1e-12)


def test_second_job_of_a_pair_joins_in_the_next_pass() -> None:
    shop = Shop(1)
    shop.submit(work(1), work(2))
    policy = registry.make(Scheduling(policy="annealing"))
    assert [len(starts(shop.play(policy))) for _ in range(3)] == [1, 1, 0]


def test_gangs_choose_devices_before_more_valuable_single_jobs() -> None:
    shop = Shop(2, 2)
    shop.submit(work(1, "heavy", 0.1), work(2, "heavy", 0.1), work(3, "heavy", 0.4, device_count=2))
    assert starts(shop.play(planner(greedy, Scheduling()))) == [1, 2, 3]


def test_complete_by_other_score_and_among_fewer_options() -> None:
    shop = Shop(1)
    shop.submit(work(1, "heavy", 1), work(2, "heavy", 2))
    batch = shop.batch()
    assert batch.jobs[batch.first[complete(batch, NONE)[0]]].id == 1
    assert batch.jobs[batch.first[complete(batch, NONE, -batch.value)[0]]].id == 2
    assert list(complete(batch, NONE, among=np.array([1]))) == [1]


def test_allows_is_false_for_options_that_do_not_fit() -> None:
    shop = Shop(1)
    shop.submit(work(1, "heavy"), work(2, "heavy"))
    batch = shop.batch()
    assert not batch.allows(np.array([0, 1]))


def test_packing_starts_what_the_plan_leaves() -> None:
    shop = Shop(2)
    shop.submit(work(1, "heavy"), work(2, "heavy"))
    nothing = planner(lambda batch: Plan(batch, NONE), Scheduling())
    assert starts(shop.play(nothing)) == [1, 2]


@pytest.mark.parametrize("name", PLANNERS)
def test_every_planner_starts_all_that_fits_and_is_repeatable(name: str) -> None:
    def played(seed: int) -> list[list[tuple[Any, ...]]]:
        shop = drawn(seed)
        policy = registry.make(Scheduling(policy=name))
        passes = [shop.play(policy) for _ in range(4)]
        idle = [snapshot for snapshot in shop.context().snapshots if not snapshot.residents]
        if idle:
            assert all(job.device_count > 1 for job in shop.context().waiting)
        return [[(a.attempt.id, a.attempt.devices) for a in actions if isinstance(a, Launch)] for actions in passes]

    for seed in range(12):
        assert played(seed) == played(seed)


@pytest.mark.parametrize("name", PLANNERS)
def test_planner_without_jobs_proposes_nothing(name: str) -> None:
    shop = Shop(2)
    assert not starts(shop.play(registry.make(Scheduling(policy=name))))


@pytest.mark.parametrize("name", ["convex", "hybrid", "integer", "linear"])
def test_missing_scipy_is_an_error_with_a_fix(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(module: str, *rest: Any) -> Any:
        if module.startswith("scipy"):
            raise ImportError(module)
        return real(module, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(BadInput, match=f"`{name}` needs SciPy") as caught:
        registry.make(Scheduling(policy=name))
    assert "gpuq-daemon[train]" in caught.value.fix


def starts(actions: Sequence[Any]) -> list[int]:
    return sorted(action.attempt.id.job for action in actions if isinstance(action, Launch))


def test_propose_nothing_starts_nothing() -> None:
    shop = Shop(1)
    shop.submit(work(1))
    assert not starts(shop.play(propose_nothing))
