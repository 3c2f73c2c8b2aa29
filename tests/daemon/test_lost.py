"""The database is replaced by a replica without the last commits: what was lost is named, asked for again, or ended."""

from __future__ import annotations

import copy
import logging
from itertools import chain, repeat

import pytest
from msgspec import structs

from gpuq.adapters.store.contract import Store
from gpuq.adapters.store.row_types import Commit
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.job import JobId
from gpuq.errors import Conflict, Unreachable
from gpuq.messages.live import decode
from gpuq.messages.wire import CommitMark, HostKeys, HostReport, ReportNumber, seal
from tests.adapters.store.samples import an_entry
from tests.daemon.harness import Harness
from tests.support.memory_store import MemoryStore
from tests.support.nouns import a_device
from tests.support.world import World


def replica_of(store: Store) -> MemoryStore:
    """The record as it is now, in another database."""
    assert isinstance(store, MemoryStore)
    replica = MemoryStore(store._clock)
    for name, value in vars(store).items():
        if name not in {"_lock", "_clock"}:
            setattr(replica, name, copy.copy(value))
    return replica


def fail_over(harness: Harness, replica: MemoryStore) -> None:
    """The replica is promoted, and a dispatcher takes over there."""
    harness.store = replica
    harness.start()


async def test_a_launch_that_was_lost_is_ended_and_its_job_runs_once_more(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(harness.store, a_device("gpu0"), a_device("gpu1"))
    await harness.live(world, 2)
    job = harness.submit()
    replica = replica_of(harness.store)
    await harness.live(world, 3)
    assert world.running() == [AttemptId(job, 1)]

    fail_over(harness, replica)
    world.store = replica
    await harness.live(world, 20)
    first, second = world.starts
    assert (first, second.job) == (AttemptId(job, 1), job)
    assert second.number > 1000
    assert harness.states() == {job: "RUNNING"}
    assert "attempt 1-1 runs on host host and not in the record: it is stopped" in caplog.text
    assert "the record lacks its journal entries" in caplog.text
    view = decode(await harness.stream.view() or b"")
    assert [len(host.lost) for host in view.hosts] == [2]


async def test_nothing_starts_for_ten_seconds_after_a_loss_in_which_hosts_report_that_the_record_lost_too(
    harness: Harness,
) -> None:
    first = World(harness.store, a_device("gpu0", host="a"), host="a")
    await harness.live(first, 2)
    replica = replica_of(harness.store)
    lost = World(harness.store, a_device("gpu1", host="b"), host="b")
    await harness.live(lost, 2)
    for _ in range(2):
        harness.submit()
    await harness.live(lost, 2)
    assert [attempt.job for attempt in lost.running()] != []
    fail_over(harness, replica)
    first.store = lost.store = replica
    job = harness.submit()
    await harness.live(first, 9)
    assert harness.states() == {job: "PENDING"}, "host b may have it, as in this case"
    await harness.live(first, 4)
    assert harness.states() == {job: "RUNNING"}
    view = decode(await harness.stream.view() or b"")
    assert {host.name: len(host.lost) > 0 for host in view.hosts} == {"a": True}


async def test_what_a_record_without_any_host_lost_is_shown_with_each_that_reports(harness: Harness) -> None:
    empty = replica_of(harness.store)
    world = World(harness.store, a_device())
    await harness.live(world, 2)
    harness.submit()
    await harness.live(world, 2)
    fail_over(harness, empty)
    world.store = empty
    await harness.live(world, 2)
    (host,) = decode(await harness.stream.view() or b"").hosts
    assert any("job 1 had been submitted, and the record lost" in sentence for sentence in host.lost)


async def test_another_gpuq_in_the_same_redis_is_said_also_where_nothing_happens(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(harness.store, a_device())

    async def shows_it() -> bool:
        await harness.live(world, 2)
        return decode(await harness.stream.view() or b"").dispatcher.shares_redis

    other = HostKeys("another key").sealed_mark(CommitMark(1, 5, 2))
    await harness.stream.set_committed(other)
    assert not await shows_it(), "an earlier dispatcher may have had another key"
    assert not await shows_it()
    await harness.stream.set_committed(other)
    assert await shows_it()
    assert "another gpuq uses the same database of Redis" in caplog.text


async def test_a_loss_is_noticed_although_redis_lost_the_mark_before(harness: Harness) -> None:
    world = World(harness.store, a_device())
    replica = replica_of(harness.store)
    harness.submit()
    await harness.live(world, 3)
    harness.stream.server.flush()
    await harness.live(world, 2)
    fail_over(harness, replica)
    world.store = replica
    await harness.live(world, 2)
    (host,) = decode(await harness.stream.view() or b"").hosts
    assert any("job 1 had been submitted, and the record lost" in sentence for sentence in host.lost)


async def test_lost_submissions_are_named(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    world = World(harness.store, a_device())
    await harness.live(world, 2)
    replica = replica_of(harness.store)
    for _ in range(3):
        harness.submit()
    await harness.live(world, 2)
    fail_over(harness, replica)
    await harness.turn()
    assert "jobs 1 to 3 had been submitted, and the record lost them: submit them again" in caplog.text


@pytest.mark.parametrize("is_replica", [False, True])
async def test_redis_comes_back_between_the_comparison_and_the_next_mark(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_replica: bool
) -> None:
    """As after a reboot, when both start at once. The mark of the first commit neither counts as that of an earlier dispatcher
    nor replaces it."""
    world = World(harness.store, a_device())
    await harness.live(world, 2)
    replica = replica_of(harness.store)
    lost = harness.submit()
    await harness.live(world, 2)
    fail_over(harness, replica if is_replica else harness.store)
    world.store = harness.store
    answers = chain([Unreachable("Redis is not usable: it is loading its file.")], repeat(None))
    committed = harness.stream.committed

    async def is_late() -> bytes | None:
        if (error := next(answers)) is not None:
            raise error
        return await committed()

    monkeypatch.setattr(harness.stream, "committed", is_late)
    job = harness.submit()
    with caplog.at_level(logging.ERROR):
        await harness.live(world, 14)
    named = [record.message for record in caplog.records if "the record lacks its journal entries" in record.message]
    assert len(named) == is_replica
    assert harness.states() == ({job: "RUNNING"} if is_replica else {lost: "RUNNING", job: "PENDING"})
    assert (harness.dispatcher.state.first_attempt > 1) == is_replica


async def test_a_job_that_gets_the_number_of_a_lost_one_is_not_taken_for_it(harness: Harness) -> None:
    """Its host has the folder of attempt 1-1, and would take a launch of it for a repeated one."""
    world = World(harness.store, a_device())
    await harness.live(world, 2)
    replica = replica_of(harness.store)
    lost = harness.submit("lost.py")
    await harness.live(world, 3)
    world.end(AttemptId(lost, 1), code=7)
    await harness.live(world, 2)
    assert harness.states() == {lost: "FAILED"}

    fail_over(harness, replica)
    world.store = replica
    job = harness.submit("new.py")
    assert job == lost
    await harness.live(world, 12)
    assert harness.states() == {job: "RUNNING"}
    assert world.starts[-1] == AttemptId(job, 1001)
    harness.start()
    assert harness.dispatcher.state.first_attempt == 1001, "kept in the record"


async def test_events_that_the_record_lost_are_named_and_taken_again(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    """Redis lost its mark as well: only the host knows."""
    world = World(harness.store, a_device())
    job = harness.submit()
    await harness.live(world, 3)
    replica = replica_of(harness.store)
    world.end(AttemptId(job, 1))
    await harness.live(world, 2)
    assert harness.states() == {job: "COMPLETED"}

    fail_over(harness, replica)
    harness.stream.server.flush()
    *_, report = world.messages(len(world.spool))
    assert isinstance(report, HostReport)
    number = ReportNumber("worker", 1, harness.dispatcher.inbox._dispatcher)
    await harness.turn(seal(structs.replace(report, committed=2, number=number), world.key))
    assert "events 2 to 2 of host host had been committed, and the record lost them" in caplog.text
    await harness.live(world, 2)
    assert harness.states() == {job: "COMPLETED"}


async def test_a_dispatcher_whose_record_went_back_under_it_starts_again(harness: Harness) -> None:
    """The address names several database servers, so its connection reaches the promoted one without a restart."""
    world = World(harness.store, a_device())
    await harness.live(world, 2)
    replica = replica_of(harness.store)
    harness.submit()
    await harness.live(world, 2)
    harness.lease.store = replica
    with pytest.raises(Conflict, match="The record lacks the journal entries"):
        harness.lease.commit(Commit(entries=[an_entry(harness.journal()[-1].seq + 1)]))


async def test_a_forged_mark_holds_nothing_up(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    world = World(harness.store, a_device())
    harness.stream.server.committed = b'{"type":"mark","epoch":9,"seq":1000000,"last_job":5,"signature":"x"}'
    job = harness.submit()
    with caplog.at_level(logging.ERROR):
        await harness.live(world, 3)
    assert harness.states() == {job: "RUNNING"}
    assert caplog.text == ""


async def test_a_host_that_was_reported_lost_and_is_back_runs_nothing_on(harness: Harness) -> None:
    world = World(harness.store, a_device())
    job = harness.submit()
    await harness.live(world, 3)
    harness.now += 30
    harness.store.add_request("lost", None, "ann", harness.now, {"host": "host"})
    await harness.turn()
    assert harness.states() == {job: "NODE_FAIL"}
    await harness.live(world, 8)
    assert world.running() == []
    assert JobId(job) not in harness.dispatcher.state.jobs
