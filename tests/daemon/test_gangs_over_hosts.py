"""A job over two hosts, through the whole dispatcher: record, claims, orders and restarts."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuq.core.state.attempt import AttemptId, Ending
from gpuq.core.state.job import JobId, JobState
from gpuq.core.state.transitions import Step
from gpuq.daemon.journal import from_snapshot, snapshot
from tests.daemon.harness import Harness
from tests.support.nouns import a_device
from tests.support.world import World


def two_hosts(harness: Harness) -> list[World]:
    return [World(harness.store, a_device(f"{host}/0", host=host), host=host) for host in ("a", "b")]


async def turns(harness: Harness, worlds: list[World], number: int = 6) -> None:
    for _ in range(number):
        for world in worlds:
            await harness.live(world, 1, 0.5)


async def running(harness: Harness, **changes: object) -> tuple[list[World], JobId]:
    worlds = two_hosts(harness)
    await turns(harness, worlds, 2)
    job = harness.submit(gpus=2, hosts=2, **changes)
    await turns(harness, worlds)
    assert harness.dispatcher.state.jobs[job].state is JobState.RUNNING
    return worlds, job


async def test_each_host_claims_its_own_attempt_and_the_job_ends_when_both_have(harness: Harness) -> None:
    (one, two), job = await running(harness)
    assert sorted([*one.running(), *two.running()]) == [AttemptId(job, 1), AttemptId(job, 2)]
    for world in (one, two):
        world.end(world.running()[0])
    await turns(harness, [one, two])
    row = harness.store.job(job)
    assert row is not None
    assert row.state is JobState.COMPLETED


async def test_the_reason_is_that_of_the_attempt_that_failed(harness: Harness) -> None:
    (one, two), job = await running(harness)
    two.end(two.running()[0], Ending.KILLED, 137)
    await turns(harness, [one, two])
    row = harness.store.job(job)
    assert row is not None
    assert (row.state, row.reason) == (JobState.FAILED, "on host b: killed")
    assert not one.running()


async def test_a_dispatcher_that_takes_over_in_between_knows_what_has_ended(harness: Harness) -> None:
    (one, two), job = await running(harness)
    two.end(two.running()[0], Ending.OUT_OF_MEMORY, 1)
    await harness.live(two, 1)
    harness.start()
    assert harness.dispatcher.state.gang_ends == {job: Step.RUN_OUT_OF_MEMORY}
    assert from_snapshot(snapshot(harness.dispatcher.state)) == harness.dispatcher.state
    await turns(harness, [one, two])
    row = harness.store.job(job)
    assert row is not None
    assert row.state is JobState.OUT_OF_MEMORY


async def test_where_one_host_is_cut_off_before_it_claims_the_other_is_stopped_and_all_of_it_waits(
    harness: Harness,
) -> None:
    one, two = two_hosts(harness)
    await turns(harness, [one, two], 2)
    job = harness.submit(gpus=2, hosts=2)
    await harness.live(one, 30)
    assert one.starts == [AttemptId(job, 1)]
    assert not one.running()
    assert harness.dispatcher.state.jobs[job].state is JobState.PENDING
    # The order that the other host gets late is worth nothing: all of it starts again.
    harness.deliver(two)
    assert not two.starts
    await turns(harness, [one, two])
    assert sorted([*one.running(), *two.running()]) == [AttemptId(job, 3), AttemptId(job, 4)]


_STEPS = st.lists(
    st.tuples(st.sampled_from(["live", "live", "live", "end", "fail", "restart", "redis", "wait"]), st.integers(0, 1)),
    max_size=30,
)


@settings(max_examples=12, deadline=None)
@given(_STEPS)
def test_after_any_interleaving_all_of_it_runs_or_none(steps: list[tuple[str, int]]) -> None:
    import asyncio

    async def story(folder: Path) -> None:
        harness = Harness(folder)
        worlds = two_hosts(harness)
        await turns(harness, worlds, 2)
        job = harness.submit(gpus=2, hosts=2, requeue_on_node_fail=True)
        for what, which in steps:
            world = worlds[which]
            match what:
                case "live":
                    await harness.live(world, 1)
                case "end" | "fail" if world.running():
                    world.end(world.running()[0], Ending.EXITED, 0 if what == "end" else 1)
                case "restart":
                    harness.start()
                case "redis":
                    harness.orders.sent.clear()
                case "wait":
                    harness.now += 7.0
                    await harness.turn()
        await turns(harness, worlds, 40)
        rows = {AttemptId(row.job, row.number): row for row in harness.store.attempts(job)}
        starts = [attempt for world in worlds for attempt in world.starts]
        assert len(starts) == len(set(starts)), "an attempt was started twice"
        alive = [attempt for world in worlds for attempt in world.running()]
        state = harness.dispatcher.state
        ended_well = [id_ for id_, row in rows.items() if row.exit_code == 0]
        if alive and not ended_well:
            assert len(alive) == 2
            assert {attempt.number for attempt in alive} == {state.jobs[job].attempt, state.jobs[job].attempt + 1}
        assert sorted(alive) == sorted(state.attempts)
        assert {device for attempt in state.attempts.values() for device in attempt.devices} == set(state.residents)

    with TemporaryDirectory() as folder:
        asyncio.run(story(Path(folder)))
