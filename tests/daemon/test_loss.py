"""What is lost, doubled, forged or away: it is said again, and the record always knows."""

from __future__ import annotations

from functools import partial

import pytest

from gpuq.core.measuring.measurement import Measurement
from gpuq.core.state.attempt import AttemptId, Ending
from gpuq.core.state.events import Exited
from gpuq.core.state.job import JobId
from gpuq.errors import Unreachable
from gpuq.messages.codec import to_plain
from gpuq.messages.wire import HostReport, Spooled, seal
from tests.daemon.harness import Harness
from tests.support.nouns import a_device
from tests.support.world import World


async def test_every_order_may_be_lost_and_every_message_doubled(harness: Harness) -> None:
    world = World(harness.store, a_device())
    job = harness.submit()
    await harness.live(world, 1)
    harness.now += 1
    await harness.turn(*world.messages(0))
    harness.orders.sent.clear()  # the order is lost

    await harness.live(world, 8)
    for message in world.messages(0):
        await harness.turn(message, message)

    assert world.starts == [AttemptId(job, 1)]
    assert harness.states() == {job: "RUNNING"}


async def test_an_attempt_lost_after_its_claim_is_voided_and_tried_again(harness: Harness) -> None:
    world = World(harness.store, a_device())
    job = harness.submit()
    await harness.turn(*world.messages(0))
    await harness.turn(*world.messages(0))
    assert harness.store.claim(AttemptId(job, 1), "host", "home", "boot-1", 0.0), "the worker dies right after this"

    await harness.live(world, 20)

    assert world.starts == [AttemptId(job, 2)]
    assert harness.states() == {job: "RUNNING"}


@pytest.mark.parametrize("key", ["", "another key"])
async def test_a_forged_event_in_redis_does_not_end_a_job(harness: Harness, key: str) -> None:
    world = World(harness.store, a_device())
    job = harness.submit()
    await harness.live(world, 3)
    name, body = to_plain(Exited(AttemptId(job, 1), 0.0, Ending.NEVER_STARTED, None, "forged", Measurement()))
    forged = Spooled("host", len(world.spool) + 1, name, body)

    await harness.turn(seal(forged, key) if key else forged, HostReport("host", 0, {"host": "host"}))
    await harness.live(world, 2)

    assert harness.states() == {job: "RUNNING"}
    assert world.starts == [AttemptId(job, 1)]
    world.end(AttemptId(job, 1))
    await harness.live(world, 2)
    assert harness.states() == {job: "COMPLETED"}, "the number that the forgery bore is still the host's"


async def test_events_after_a_gap_wait_until_the_host_sends_again(harness: Harness) -> None:
    world = World(harness.store, a_device())
    job = harness.submit()
    await harness.live(world, 3)
    world.end(AttemptId(job, 1))
    last = world.spool[-1]
    harness.dispatcher.inbox.taken["host"] = 0

    await harness.turn(last)
    assert harness.states() == {job: "RUNNING"}

    await harness.turn(*world.messages(0))
    assert harness.states() == {job: "COMPLETED"}


async def test_a_dispatcher_that_dies_is_followed_by_one_that_knows_as_much(harness: Harness) -> None:
    world = World(harness.store, a_device("gpu0"), a_device("gpu1"))
    jobs = [harness.submit() for _ in range(4)]
    await harness.live(world, 4)
    world.end(AttemptId(jobs[0], 1))
    before = harness.dispatcher.state

    harness.start()
    after = harness.dispatcher.state
    assert after.jobs.keys() == before.jobs.keys()
    assert after.attempts.keys() == before.attempts.keys()
    assert after.residents == before.residents

    await harness.live(world, 3)
    assert harness.states()[jobs[0]] == "COMPLETED"
    assert len(world.starts) == len(set(world.starts))


async def test_a_cancel_reaches_the_host_and_is_said_again_until_it_works(harness: Harness) -> None:
    world = World(harness.store, a_device())
    job = harness.submit()
    await harness.live(world, 3)
    harness.store.add_request("cancel", job, "ada", harness.now, {})
    await harness.turn()
    harness.orders.sent.clear()  # lost
    harness.start()  # and the dispatcher with it

    await harness.live(world, 5)

    assert harness.states() == {job: "CANCELLED"}
    assert world.running() == []


async def test_a_job_cancelled_before_its_order_arrives_never_starts(harness: Harness) -> None:
    world = World(harness.store, a_device())
    job = harness.submit()
    await harness.turn(*world.messages(0))
    await harness.turn(*world.messages(0))
    assert harness.states() == {job: "STARTING"}
    harness.store.add_request("cancel", job, "ada", harness.now, {})
    await harness.turn()

    harness.deliver(world)
    await harness.live(world, 3)

    assert world.starts == []
    assert harness.states() == {job: "CANCELLED"}


async def test_redis_away_holds_nothing_up_that_it_need_not(harness: Harness) -> None:
    world = World(harness.store, a_device())
    harness.orders.down = True
    job = harness.submit()
    await harness.turn(*world.messages(0))
    await harness.turn(*world.messages(0))
    assert harness.states() == {job: "STARTING"}

    harness.orders.down = False
    await harness.live(world, 8)
    assert harness.states() == {job: "RUNNING"}


async def test_the_database_away_stops_the_ring_and_loses_nothing(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has a line for each change; the watchdog is fed while the dispatcher waits."""
    world = World(harness.store, a_device())
    job = harness.submit()
    failures = iter([Unreachable("the disk is full."), Unreachable("it does not answer."), Unreachable("it is busy.")])
    commit, beats = harness.store.commit, []

    def failing(batch: object) -> None:
        beats.append(harness.dispatcher.beat)
        for failure in failures:
            harness.now += 30
            raise failure
        commit(batch)  # type: ignore[arg-type]

    monkeypatch.setattr(harness.store, "commit", failing)
    monkeypatch.setattr("gpuq.daemon.loop._RETRY_S", 0)

    with caplog.at_level("INFO", "gpuq.daemon.loop"):
        await harness.live(world, 3)

    assert harness.states() == {job: "RUNNING"}
    assert [line.getMessage() for line in caplog.records] == [
        "record: the disk is full. Trying again until it answers.",
        "record: it answers again after 60 s",
    ]
    assert len(set(beats[:4])) == 4


async def test_an_unknown_request_is_dropped_and_jobs_still_start(harness: Harness) -> None:
    world = World(harness.store, a_device())
    harness.store.add_request("dance", None, "ada", harness.now, {})
    job = harness.submit()

    await harness.live(world, 3)

    assert harness.states() == {job: "RUNNING"}
    assert harness.store.requests(10) == []
    assert isinstance(job, int)
    assert JobId(job) in harness.dispatcher.state.jobs


@pytest.mark.parametrize("fenced", [True, False])
async def test_the_jobs_of_a_host_that_was_reported_lost_end_or_start_elsewhere(harness: Harness, fenced: bool) -> None:
    world = World(harness.store, a_device("gpu0"), a_device("gpu1"))
    other = World(harness.store, a_device("far0", host="far"), host="far")
    ends, goes_on = harness.submit(), harness.submit("other.py", requeue_on_node_fail=True)
    await harness.live(world, 4)
    assert harness.states() == {ends: "RUNNING", goes_on: "RUNNING"}

    harness.now += 30  # the host is silent
    harness.store.add_request("lost", None, "ann", harness.now, {"host": "host", "fenced": fenced})
    await harness.live(other, 4)
    assert len(other.starts) == fenced, "unless it was switched off, it may run there until its lease has ended"
    await harness.live(other, 60)

    assert harness.states() == {ends: "NODE_FAIL", goes_on: "RUNNING"}
    assert other.starts == [AttemptId(goes_on, 2)]
    [first, _] = harness.store.attempts(goes_on)
    assert first.ending == "lost"
    assert first.reason is not None
    assert first.reason.startswith("host host was " + ("reported lost by ann" if fenced else "not heard for 9"))


async def test_a_host_that_reports_is_not_lost(harness: Harness) -> None:
    world = World(harness.store, a_device())
    job = harness.submit()
    await harness.live(world, 3)
    harness.store.add_request("lost", None, "ann", harness.now, {"host": "host"})
    await harness.live(world, 3)
    assert harness.states() == {job: "RUNNING"}


async def test_a_host_is_forgotten_once_it_is_silent_and_its_jobs_have_ended(harness: Harness) -> None:
    world = World(harness.store, a_device())
    job = harness.submit()
    await harness.live(world, 3)
    forget = partial(harness.store.add_request, "forget", None, "ann", 0.0, {"host": "host"})

    forget()
    await harness.live(world, 2)
    assert harness.store.hosts(), "it reports"

    harness.now += 60
    forget()
    await harness.turn()
    assert harness.store.hosts(), "its job may still run"

    harness.store.add_request("lost", None, "ann", 0.0, {"host": "host"})
    forget()
    await harness.turn()
    await harness.turn()
    assert harness.states() == {job: "NODE_FAIL"}
    assert (harness.store.hosts(), harness.store.devices(forgotten=False)) == ({}, [])
    assert not harness.dispatcher.state.devices
    assert len(harness.store.devices()) == 1, "the type of the device that the attempt ran on is known"
