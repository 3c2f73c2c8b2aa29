"""Attempts that their host does not report: never started without a claim, lost if the claimer was replaced, else awaited."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuq.adapters.store.row_types import LEASE_S, Claim
from gpuq.core.measuring.measurement import Measurement
from gpuq.core.state.attempt import AttemptId, Ending
from gpuq.core.state.events import Exited
from gpuq.core.state.job import JobId
from gpuq.daemon.job_leases import GRACE_S, JobLeases
from gpuq.daemon.unstarted import accepted
from gpuq.messages.wire import verify
from tests.daemon.harness import Harness
from tests.support.nouns import a_device
from tests.support.world import World


def attempt(job: JobId, number: int = 1) -> AttemptId:
    return AttemptId(job, number)


async def launch(harness: Harness, *worlds: World, **submitted: object) -> JobId:
    """A job that is launched on the first of these hosts, which has not heard of it yet."""
    await harness.turn(*worlds[0].messages(0))
    job = harness.submit(**submitted)
    await harness.turn()
    for world in worlds[1:]:
        await harness.turn(*world.messages(0))
    assert list(harness.orders.sent) == [worlds[0].host]
    return job


async def test_a_job_launched_on_a_host_that_is_cut_off_runs_elsewhere_within_15_s(harness: Harness) -> None:
    cut_off = World(harness.store, a_device("gpu0", host="a"), host="a")
    other = World(harness.store, a_device("gpu1", host="b"), host="b")
    job = await launch(harness, cut_off, other)
    await harness.live(other, 15)
    assert other.starts == [attempt(job, 2)]

    harness.deliver(cut_off)  # it is back, and so are its orders
    await harness.live(cut_off, 3)
    assert cut_off.starts == []
    other.end(attempt(job, 2))
    await harness.live(other, 2)
    assert harness.states() == {job: "COMPLETED"}


async def test_a_job_that_a_silent_host_has_claimed_is_awaited(harness: Harness) -> None:
    silent = World(harness.store, a_device("gpu0", host="a"), host="a")
    other = World(harness.store, a_device("gpu1", host="b"), host="b")
    job = await launch(harness, silent, other)
    harness.deliver(silent)
    await harness.live(other, 60)
    assert harness.states() == {job: "STARTING"}

    await harness.live(silent, 2)
    assert harness.states() == {job: "RUNNING"}
    assert (silent.starts, other.starts) == ([attempt(job)], [])


async def test_a_cancelled_job_on_a_host_that_is_cut_off_ends(harness: Harness) -> None:
    cut_off = World(harness.store, a_device())
    job = await launch(harness, cut_off)
    harness.store.add_request("cancel", job, "ada", harness.now, {})
    for _ in range(15):
        harness.now += 1
        await harness.turn()
    assert harness.states() == {job: "CANCELLED"}


async def test_a_launch_that_was_revoked_before_the_dispatcher_died_ends_in_the_next_one(harness: Harness) -> None:
    world = World(harness.store, a_device())
    job = await launch(harness, world)
    harness.lease.revoke(attempt(job), harness.now)
    harness.start()
    await harness.live(world, 30)
    assert world.starts == [attempt(job, 2)]


async def test_orders_name_the_instance_that_reports_for_the_host(harness: Harness) -> None:
    world = World(harness.store, a_device())
    world.instance = "home-1"
    await launch(harness, world)
    (_, signed), *_ = harness.orders.sent[world.host]
    assert verify(signed, world.key, world.host).instance == "home-1"


@pytest.mark.parametrize("has_started", [False, True])
async def test_never_started_is_believed_of_the_claimer_only(harness: Harness, has_started: bool) -> None:
    original, copy = World(harness.store, a_device()), World(harness.store, a_device())
    original.instance, copy.instance = "original", "copy"
    job = await launch(harness, original)
    assert harness.store.claim(attempt(job), "host", "original", "boot-1", harness.now)
    if has_started:
        original.spool_start(attempt(job))
        await harness.turn(*original.messages(0))
        copy.spool = [*original.spool]
    before = harness.states()

    copy.end(attempt(job), Ending.NEVER_STARTED, None)  # it has no folder of the attempt
    await harness.turn(*copy.messages(0))
    assert harness.states() == before

    original.spool = [*copy.spool]
    original.end(attempt(job), Ending.NEVER_STARTED, None)
    await harness.turn(*original.messages(0))
    ended = harness.store.attempts(job)[0]
    assert ended.ending == ("lost" if has_started else "never started")
    assert ("its folder on host host was removed" in (ended.reason or "")) is has_started
    assert harness.states() == {job: "NODE_FAIL" if has_started else "STARTING"}


@pytest.mark.parametrize("requeue", [False, True])
async def test_attempts_of_an_instance_that_was_replaced_are_lost(harness: Harness, requeue: bool) -> None:
    original, reinstalled = World(harness.store, a_device()), World(harness.store, a_device())
    original.instance, reinstalled.instance = "original", "reinstalled"
    harness.store.lease_host("host", "original")
    job = await launch(harness, original, requeue_on_node_fail=requeue)
    await harness.live(original, 3)
    assert harness.states() == {job: "RUNNING"}

    harness.now += LEASE_S + 1
    assert harness.store.lease_host("host", "reinstalled").instance == "reinstalled"
    reinstalled.spool = [*original.spool]
    await harness.live(reinstalled, 5)
    if requeue:
        assert harness.states() == {job: "RUNNING"}, "the original may run it until its lease has ended"
        await harness.live(reinstalled, 65)

    assert harness.store.attempts(job)[0].ending == "lost"
    assert harness.states() == {job: "RUNNING" if requeue else "NODE_FAIL"}
    assert reinstalled.starts == [attempt(job, 2)] * requeue


async def test_lost_is_believed_of_the_claimer_only_while_the_lease_lasts(harness: Harness) -> None:
    """A copied disk on another machine has the folder too, of another boot, and takes the attempt for one before a restart."""
    original, copy = World(harness.store, a_device()), World(harness.store, a_device())
    original.instance, copy.instance = "original", "copy"
    job = await launch(harness, original, requeue_on_node_fail=True)
    await harness.live(original, 3)
    copy.spool = [*original.spool]
    copy.end(attempt(job), Ending.LOST, None)
    await harness.turn(*copy.messages(0))
    assert harness.states() == {job: "RUNNING"}
    original.spool = [*copy.spool]
    original.end(attempt(job), Ending.LOST, None)
    await harness.turn(*original.messages(0))
    assert harness.store.attempts(job)[0].ending == "lost"


@pytest.mark.parametrize(
    ("claimer", "reporter", "silent_s", "counts"),
    [
        ("original", "original", 0.0, True),
        ("original", "copy", 0.0, False),
        ("original", "copy", 60.0 + GRACE_S, False),
        ("original", "copy", 61.0 + GRACE_S, True),
        (None, "copy", 0.0, True),
    ],
)
async def test_whose_word_counts_for_an_attempt_with_a_lease(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, claimer: str | None, reporter: str, silent_s: float, counts: bool
) -> None:
    """No instance is known of a claim that a host of an earlier release made."""
    job = await launch(harness, World(harness.store, a_device()))
    monkeypatch.setattr(harness.lease, "revoke", lambda *_: Claim(instance=claimer, holder=reporter))
    leases, launched = JobLeases(0.0), harness.dispatcher.state.attempts[attempt(job)]
    leases.heard("host", claimer, 100.0)
    leased = replace(launched, lease_s=60.0)
    end = Exited(attempt(job), 0.0, Ending.LOST, None, "", Measurement(), instance=reporter)

    found = accepted(harness.lease, leases, end, leased, 100.0 + silent_s, 0.0)
    assert found == (end if counts else None)
