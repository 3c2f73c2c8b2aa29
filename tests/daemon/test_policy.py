"""The daemon with a user's own policy: preemption, jobs on several devices, a policy that fails, and restarts."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.policy import Eviction, Proposal
from gpuq.core.state.attempt import AttemptId, Ending, StopReason
from gpuq.core.state.job import JobId
from gpuq.daemon.journal import replay
from gpuq.messages.wire import Verb, verify
from gpuq.policies import registry
from gpuq.policies.guard import Guarded, guard
from gpuq.policies.lists.packed import packed
from gpuq.settings import Scheduling
from tests.daemon.harness import Harness, measured
from tests.support.nouns import a_device
from tests.support.world import World


def the_first_takes_all(context: SchedulingContext) -> Iterator[Proposal | Eviction]:
    """The job of the highest priority runs; every job of a lower priority is evicted for it."""
    for job in sorted(context.waiting, key=lambda j: -j.priority):
        yield from packed(context)
        if not context.placed(job):
            for attempt in context.state.attempts.values():
                if context.state.jobs[attempt.id.job].priority < job.priority:
                    yield Eviction(attempt.id, job)


def use(harness: Harness, policy: object) -> Guarded:
    guarded = Guarded("theirs", policy, packed, 5.0)  # type: ignore[arg-type]
    harness.dispatcher.parts.policy = harness.dispatcher._policy = guarded
    return guarded


def verbs(harness: Harness, world: World) -> list[Verb]:
    """What was rung and not yet heard."""
    return [verify(signed, world.key, world.host).verb for _, signed in harness.orders.sent.get(world.host, [])]


async def preempted(harness: Harness, world: World) -> tuple[JobId, JobId]:
    """A job of low priority runs and one of high priority is submitted: the preemption is sent, but not yet received."""
    use(harness, the_first_takes_all)
    low = harness.submit(preemptible=True)
    await harness.live(world, 3)
    harness.now += 10
    high = harness.submit("urgent.py", priority=10)
    await harness.turn()
    assert harness.states() == {low: "COMPLETING", high: "PENDING"}
    return low, high


async def test_a_preempted_job_makes_room_waits_and_runs_again(harness: Harness) -> None:
    world = World(harness.store, a_device())
    low, high = await preempted(harness, world)
    assert verbs(harness, world) == [Verb.PREEMPT]

    await harness.live(world, 4)
    assert harness.states() == {low: "PENDING", high: "RUNNING"}
    assert harness.dispatcher.state.jobs[low].served_s > 0

    world.end(AttemptId(high, 1))
    await harness.live(world, 4)
    assert harness.states() == {low: "RUNNING", high: "COMPLETED"}
    assert [row.number for row in harness.store.attempts(low)] == [1, 2]
    assert harness.store.attempts(low)[0].ending == "stopped"


async def test_a_job_that_does_not_say_it_saves_is_left_alone(harness: Harness) -> None:
    world = World(harness.store, a_device())
    use(harness, the_first_takes_all)
    low = harness.submit()
    await harness.live(world, 3)
    high = harness.submit("urgent.py", priority=10)
    await harness.live(world, 3)
    assert harness.states() == {low: "RUNNING", high: "PENDING"}


async def test_exit_code_0_after_a_preemption_does_not_complete_the_job(harness: Harness) -> None:
    world = World(harness.store, a_device())
    low, high = await preempted(harness, world)
    harness.orders.sent.clear()
    world.end(AttemptId(low, 1), Ending.STOPPED, 0)
    await harness.live(world, 3)
    assert harness.states() == {low: "PENDING", high: "RUNNING"}


async def test_a_job_that_ends_before_it_receives_the_preemption_is_completed(harness: Harness) -> None:
    world = World(harness.store, a_device())
    low, high = await preempted(harness, world)
    harness.orders.sent.clear()
    world.end(AttemptId(low, 1), Ending.EXITED, 0)
    await harness.live(world, 3)
    assert harness.states() == {low: "COMPLETED", high: "RUNNING"}


async def test_a_cancel_while_it_saves_ends_it_for_good(harness: Harness) -> None:
    world = World(harness.store, a_device())
    low, high = await preempted(harness, world)
    harness.orders.sent.clear()
    harness.store.add_request("cancel", low, "ada", harness.now, {})

    await harness.turn()
    assert verbs(harness, world) == [Verb.STOP], "it need not wait for the job to save"

    await harness.live(world, 3)
    assert harness.states() == {low: "CANCELLED", high: "RUNNING"}


async def test_a_restart_in_the_middle_still_knows_that_it_was_preempted(harness: Harness) -> None:
    world = World(harness.store, a_device())
    low, high = await preempted(harness, world)
    harness.orders.sent.clear()

    harness.start()

    assert harness.dispatcher.state.attempts[AttemptId(low, 1)].stopping is StopReason.PREEMPTED
    await harness.turn()
    assert verbs(harness, world) == [Verb.PREEMPT], "and says so again"
    await harness.live(world, 3)
    assert harness.states() == {low: "PENDING", high: "RUNNING"}


async def test_what_was_had_survives_a_restart(harness: Harness) -> None:
    world = World(harness.store, a_device("gpu0"), a_device("gpu1"))
    use(harness, the_first_takes_all)
    low = harness.submit(preemptible=True, gpus=2)
    harness.submit("other.py", gpus=2)
    await harness.live(world, 3)
    started = world.starts[0]
    for _ in range(5):
        await harness.live(world, 2, seconds=10)
    high = harness.submit("urgent.py", priority=10)
    await harness.live(world, 4)
    assert harness.states()[low] == "PENDING"
    assert started == AttemptId(low, 1)
    before = harness.dispatcher.state
    # The record has the times of the host's own clock; here that host is a twin that always says 0 and 1.
    assert before.jobs[low].served_s > 0

    harness.start()

    after = harness.dispatcher.state
    assert after.jobs[low].served_s == pytest.approx(2 * 1.0), "one second on two devices, as the record has it"
    assert after.usage["ada"].by(1.0) == pytest.approx(2.0)
    await harness.turn()
    assert replay(harness.journal()).usage == after.usage
    assert after.jobs[high].served_s == 0


async def test_a_gang_has_all_its_devices_or_none_and_its_promises_are_per_device(harness: Harness) -> None:
    world = World(harness.store, a_device("gpu0", 24), a_device("gpu1", 24))
    one = harness.submit("small.py")
    await harness.live(world, 3)
    gang = harness.submit(gpus=2, gpu_memory=10 * 2**30)
    await harness.live(world, 3)
    assert harness.states() == {one: "RUNNING", gang: "PENDING"}

    world.end(AttemptId(one, 1))
    await harness.live(world, 4)

    (attempt,) = harness.store.attempts(gang)
    assert sorted(attempt.devices) == ["gpu0", "gpu1"]
    state = harness.dispatcher.state.attempts[AttemptId(gang, 1)]
    assert len(state.promised) == 2
    view = json.loads(await harness.stream.view() or b"{}")
    assert [device["residents"][0]["job"] for device in view["devices"]] == [gang, gang]


async def test_a_policy_that_fails_costs_no_job_its_turn_and_the_view_says_so(harness: Harness) -> None:
    def broken(context: SchedulingContext) -> Iterator[Proposal]:
        raise ZeroDivisionError
        yield

    world = World(harness.store, a_device())
    use(harness, broken)
    job = harness.submit()

    await harness.live(world, 4)

    assert harness.states() == {job: "RUNNING"}
    view = json.loads(await harness.stream.view() or b"{}")
    policy = view["dispatcher"]["policy"]
    assert (policy["chosen"], policy["serving"]) == ("theirs", "packed")
    assert "ZeroDivisionError" in policy["fault"]["reason"]


async def test_should_even_the_default_fail_a_cancel_still_works_and_the_reason_is_said_once(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(harness.store, a_device())
    job = harness.submit()
    await harness.live(world, 3)

    def failing(context: SchedulingContext) -> Iterator[Proposal]:
        raise ZeroDivisionError("in the default")
        yield

    guarded = Guarded("packed", failing, failing, 5.0)
    harness.dispatcher.parts.policy = harness.dispatcher._policy = guarded
    waiting = harness.submit("other.py")
    harness.store.add_request("cancel", job, "ada", harness.now, {})
    await harness.live(world, 5)

    assert harness.states() == {job: "CANCELLED", waiting: "PENDING"}
    assert guarded.fault is not None
    assert "in the default" in guarded.fault.reason
    assert len([line for line in caplog.records if line.levelname == "ERROR"]) == 1


async def test_a_gang_is_slowed_by_a_partner_on_one_of_its_devices_and_that_is_measured(harness: Harness) -> None:
    world = World(harness.store, a_device("gpu0"), a_device("gpu1"))
    gang, small = harness.submit(gpus=2), harness.submit("small.py")
    for job in (gang, small):
        await harness.live(world, 4)
        world.end(AttemptId(job, 1), measurement=measured(10))
    await harness.live(world, 4)

    gang, small = harness.submit(gpus=2), harness.submit("small.py")
    await harness.live(world, 4)
    beside = AttemptId(small, 1)
    assert harness.states()[gang] == harness.states()[small] == "RUNNING"
    assert len(harness.dispatcher.state.attempts[AttemptId(gang, 1)].devices) == 2
    world.end(AttemptId(gang, 1), measurement=measured(8, partner=beside))
    world.end(beside, measurement=measured(10, partner=AttemptId(gang, 1)))
    await harness.live(world, 3)

    actual = harness.store.attempts(gang)[0].actual
    assert actual is not None
    assert actual.slowdown == pytest.approx(1.25)
    assert actual.partners == (small,)


@pytest.mark.parametrize("name", registry.names())
async def test_every_policy_that_can_be_chosen_serves_a_live_queue_to_its_end(harness: Harness, name: str) -> None:
    policy = guard(Scheduling(policy=name, policy_time_limit_s=60))
    if policy.fault is not None and "pip install" in policy.fault.reason:
        pytest.skip(policy.fault.reason)
    harness.dispatcher.parts.policy = harness.dispatcher._policy = policy
    world = World(harness.store, a_device("gpu0"), a_device("gpu1"))
    jobs = [harness.submit(preemptible=True), harness.submit("other.py"), harness.submit("gang.py", gpus=2)]
    jobs += [harness.submit("wide.py", most_gpus=2), harness.submit("late.py", deadline_at=harness.now + 60)]
    await harness.live(world, 3)
    jobs.append(harness.submit("urgent.py", priority=10))
    for _ in range(60):
        await harness.live(world, 2, seconds=5)
        for attempt in world.running()[:1]:
            world.end(attempt, measurement=measured(10))

    assert harness.states() == dict.fromkeys(jobs, "COMPLETED")
    assert policy.fault is None
