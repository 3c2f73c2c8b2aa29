"""A pass that has judged or started as many jobs as one may is cut short, and the next goes on with the jobs behind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuq.core.scheduling.cache import PassCache
from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.decide import decide
from gpuq.core.scheduling.forecast_table import ForecastTable
from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.policy import Eviction, Proposal
from gpuq.core.state.actions import Action, Launch
from gpuq.core.state.apply import apply
from gpuq.core.state.device import HostId
from gpuq.core.state.events import HostDrained, Submitted
from gpuq.core.state.validate import validate
from gpuq.core.state.verdict import Rule, Verdict
from gpuq.policies.lists import fifo
from gpuq.policies.lists.list_scheduler import list_scheduler
from gpuq.policies.lists.order import QueueOrder
from gpuq.policies.lists.packed import packed
from gpuq.settings import Scheduling
from tests.core.scheduling.test_cache import World
from tests.support.nouns import GIB, a_device, a_forecast, a_job, a_reading, a_report
from tests.support.playbook import Playbook

BUSY, QUIET = a_forecast(90, 4, pairs_known=True), a_forecast(5, 4, pairs_known=True)


def full_device(waiting: int, limits: Limits) -> Playbook:
    """A device with a resident that leaves room for a quiet job only, and so many busy jobs that wait, each of another kind."""
    play = Playbook(limits).forecast("resident", BUSY).happen(a_report(a_device()))
    play.happen(Submitted(a_job(1, kind="resident"))).settle()
    for number in range(2, 2 + waiting):
        play.forecast(f"k{number}", BUSY).happen(Submitted(a_job(number, kind=f"k{number}")))
    return play


def named(play: Playbook, *jobs: int) -> set[str | None]:
    """The devices that the reasons of these jobs name."""
    return {verdict.device for job in jobs if (verdict := play.verdict(job)) is not None}


def with_reasons(play: Playbook) -> list[int]:
    return [int(job) for job in play.state.index.waiting if play.reason(job) is not None]


def test_a_pass_ends_after_so_many_judgements_and_the_next_goes_on_behind_it() -> None:
    play = full_device(7, Limits(judgements_per_pass=3))
    play.forecast("k8", QUIET)

    play.decide()
    assert with_reasons(play) == [2, 3, 4], "what was not judged yet has no reason yet"
    play.decide()
    assert with_reasons(play) == [2, 3, 4, 5, 6, 7]
    assert list(play.launched()) == [1]
    play.decide()
    assert list(play.launched()) == [1, 8], "jobs behind those that were judged start in the pass that comes to them"


def test_jobs_keep_their_reasons_while_they_are_put_off_and_lose_them_when_a_pass_comes_to_them() -> None:
    play = full_device(7, Limits(judgements_per_pass=3))
    play.happen(a_report(a_device("other", host="other"), host="other")).settle()
    assert play.launched() == {1: "gpu0", 2: "other"}
    assert {play.reason(job) for job in range(3, 9)} == {Rule.PREDICTED_LOAD}
    assert named(play, *range(3, 9)) == {"gpu0"}

    play.happen(HostDrained(HostId("host"), "ada", "maintenance"))
    play.known.forget()  # something was learned, so all are judged again
    play.decide()
    assert named(play, 3, 4, 5) == {"other"}
    assert named(play, 6, 7, 8) == {"gpu0"}
    play.settle()
    assert named(play, *range(3, 9)) == {"other"}


def test_each_job_has_its_turn_though_something_is_learned_before_each_pass() -> None:
    play = full_device(10, Limits(judgements_per_pass=3)).forecast("k11", QUIET)
    for _ in range(4):
        play.known.forget()
        play.decide()

    assert list(play.launched()) == [1, 11]


def test_the_first_job_gets_a_device_that_becomes_idle_while_others_are_still_to_be_judged() -> None:
    play = full_device(6, Limits(judgements_per_pass=3))
    play.decide()
    play.happen(a_report(a_device(), a_device("gpu1")))
    play.decide()

    assert play.launched() == {1: "gpu0", 2: "gpu1"}


def test_what_changes_beside_residents_is_judged_in_the_policys_order_once_all_were_tried() -> None:
    play = full_device(4, Limits(judgements_per_pass=3))
    play.decide()
    play.forecast("k3", QUIET).decide()
    assert list(play.launched()) == [1], "this pass went on behind job 4"
    play.settle()
    assert list(play.launched()) == [1, 3]


def test_a_job_that_the_policy_deferred_gets_another_reason_once_it_is_tried_though_it_was_put_off_before() -> None:
    wait, deferred = Verdict(False, Rule.WAIT_LIMIT, None, ()), set[int]()

    def policy(context: SchedulingContext) -> Iterator[Proposal | Eviction]:
        for job in context.waiting:
            if job.id in deferred:
                context.defer(job, wait)
        yield from packed(context)

    def report_foreign(gib: int) -> None:
        taken = a_reading(used_memory=gib * GIB, foreign_memory=gib * GIB)
        play.happen(a_report(a_device("other", host="other"), readings={"other": taken}, host="other"))

    play = full_device(8, Limits(judgements_per_pass=3))
    play.policy = policy
    report_foreign(2)
    play.settle()
    assert list(play.launched()) == [1, 2]
    deferred.add(9)
    play.settle()
    assert play.reason(9) is Rule.WAIT_LIMIT

    deferred.clear()
    report_foreign(0)  # so all are judged there again
    play.decide()
    assert play.reason(9) is Rule.WAIT_LIMIT, "the pass was cut short before it"
    play.settle()
    assert play.reason(9) is Rule.PREDICTED_LOAD


def test_an_overdue_job_keeps_its_reservation_while_it_is_put_off() -> None:
    last_first = list_scheduler(QueueOrder(lambda context: lambda job: (-job.id,), first_come=False))
    limits = Limits(patience_s=600.0, stale_after_s=1e9, judgements_per_pass=3)
    play = Playbook(limits, last_first).happen(a_report(a_device(), a_device("gpu1")))
    for number in range(1, 4):
        play.forecast(f"k{number}", BUSY).happen(Submitted(a_job(number, kind=f"k{number}", submitted_at=play.now)))
    play.settle().happen(after=700).settle()
    assert list(play.state.reservations) == [1]

    for number in range(4, 8):
        play.forecast(f"k{number}", BUSY).happen(Submitted(a_job(number, kind=f"k{number}", submitted_at=play.now)))
    play.decide()
    assert with_reasons(play) == [1, 5, 6, 7], "the pass was cut short before jobs 4 and 1"
    assert list(play.state.reservations) == [1]


def test_a_pass_ends_after_so_many_launches() -> None:
    play = Playbook(Limits(launches_per_pass=2)).happen(a_report(*(a_device(f"gpu{number}") for number in range(5))))
    play.happen(*(Submitted(a_job(number, kind=f"k{number}")) for number in range(1, 8)))

    started = []
    while len(play.launched()) < 5:
        play.decide()
        started.append(list(play.launched()))
    assert started == [[1, 2], [1, 2, 3, 4], [1, 2, 3, 4, 5]]
    assert play.settle().reason(7) is not None


def settled(world: World, policy_of: str, limits: Limits, cache: PassCache, table: ForecastTable) -> list[Action]:
    """Pass until one that began with the first job and came to the last does nothing; what was done."""
    policy = packed if policy_of == "packed" else fifo.SPEC.make(Scheduling())
    done: list[Action] = []
    for _ in range(1000):
        from_the_first = cache.tried is None
        actions = decide(world.state, table, cache, limits, policy, world.now)
        for action in actions:
            assert apply(world.state, action, world.now), f"{action} changed nothing"
        validate(world.state)
        done += actions
        if from_the_first and cache.tried is None and not actions:
            return done
    raise AssertionError("the core does not come to rest")


@pytest.mark.parametrize("policy", ["packed", "fifo"])
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 1_000_000), judgements=st.integers(1, 4), launches=st.integers(1, 3))
def test_passes_that_are_cut_short_leave_no_job_that_a_whole_pass_would_start(
    policy: str, seed: int, judgements: int, launches: int
) -> None:
    world = World(seed)
    world.limits = replace(world.limits, trials=False)
    limits = replace(world.limits, judgements_per_pass=judgements, launches_per_pass=launches)
    cache, table = PassCache(), ForecastTable(world.answers)
    for _ in range(15):
        for event in world.events():
            apply(world.state, event, world.now)
        settled(world, policy, limits, cache, table)
        missed = settled(world, policy, world.limits, PassCache(), ForecastTable(world.answers))
        assert not [action for action in missed if isinstance(action, Launch)]
        without_reason = [job for job in world.state.index.waiting if job not in world.state.verdicts]
        assert not without_reason, "each waiting job has a reason once all were tried"


def test_the_random_worlds_have_passes_that_are_cut_short() -> None:
    """Otherwise the property would prove nothing."""
    cut = 0
    for seed in range(5):
        world, cache = World(seed), PassCache()
        limits = replace(world.limits, judgements_per_pass=1, launches_per_pass=1)
        table = ForecastTable(world.answers)
        for _ in range(20):
            for event in world.events():
                apply(world.state, event, world.now)
            for action in decide(world.state, table, cache, limits, packed, world.now):
                apply(world.state, action, world.now)
            cut += cache.tried is not None
    assert cut > 10, cut
