"""Which dispatcher leads, and that no other one commits."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from gpuq.adapters.store.row_types import Commit
from gpuq.core.state.attempt import AttemptId
from gpuq.daemon.leadership import LEASE_S, RENEW_S, holder_name, renew_during, stand_by
from gpuq.errors import Conflict, Unreachable
from gpuq.messages.live import decode
from gpuq.messages.wire import Acknowledgement, HostReport, genuine, seal, verify
from tests.daemon.harness import Harness, run_here
from tests.support.memory_store import MemoryStore
from tests.support.nouns import a_device
from tests.support.world import World


class Clock:
    """A clock that a test sets. A standby moves it on by a second with each poll."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def tick(self) -> None:
        self.now += 1


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuq.daemon.leadership.POLL_S", 0.0)


@pytest.mark.parametrize("verb", ["cancel", "release"])
async def test_a_dispatcher_that_was_overtaken_commits_nothing(harness: Harness, verb: str) -> None:
    """The job came after the other one took over. So a cancel changes nothing in the state of the first: its cycle would only
    delete the request, without a journal entry."""
    world = World(harness.store, a_device())
    overtaken = harness.dispatcher
    await harness.turn()
    harness.start()
    job = harness.submit(hold=True)
    await harness.live(world, 2)
    harness.store.add_request(verb, job, "ada", harness.now, {})

    with pytest.raises(Conflict, match="has taken over, in epoch 2"):
        await overtaken.cycle([], read_requests=True)

    assert [request.verb for request in harness.store.requests(10)] == [verb]
    await harness.live(world, 3)
    assert harness.states() == {job: "CANCELLED" if verb == "cancel" else "RUNNING"}


async def test_a_dispatcher_that_was_overtaken_sends_no_order_and_acknowledges_nothing(harness: Harness) -> None:
    world = World(harness.store, a_device())
    await harness.turn(*world.messages(0))
    overtaken = harness.dispatcher
    harness.start()
    harness.submit()

    for _ in range(2):
        with pytest.raises(Conflict):
            await overtaken.cycle([("1-1", message) for message in world.messages(0)], read_requests=True)

    assert harness.orders.sent == {}
    assert len(harness.store.requests(10)) == 1


async def test_the_epoch_of_the_leader_stands_in_its_view(harness: Harness) -> None:
    await harness.turn()
    harness.start()
    await harness.turn()
    assert decode(await harness.stream.view() or b"").dispatcher.epoch == 2


async def test_an_idle_leader_renews_its_lease_and_writes_nothing_else(harness: Harness) -> None:
    assert isinstance(harness.store, MemoryStore)
    harness.store._clock = lambda: harness.now
    await harness.turn()
    entries, renewals = harness.store.last_seq(), set()
    for _ in range(40):
        harness.now += RENEW_S / 4
        await harness.turn()
        assert harness.store.leader().renewed_s_ago <= RENEW_S
        renewals.add(harness.store.renewed_at)
    assert harness.store.last_seq() == entries
    assert len(renewals) == 11, "not with each cycle"


async def test_the_lease_is_renewed_during_a_long_restore(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuq.daemon.leadership.RENEW_S", 0.001)
    assert isinstance(harness.store, MemoryStore)
    lease, renewals = harness.lease, set[float]()
    harness.store._clock = lambda: harness.now

    async def restore() -> str:
        while len(renewals) < 3:
            harness.now += 1
            renewals.add(harness.store.renewed_at)
            await asyncio.sleep(0)
        return "restored"

    async with asyncio.timeout(60):
        assert await renew_during(lease, restore()) == "restored"

    harness.start()
    with pytest.raises(Conflict):
        await renew_during(lease, asyncio.get_running_loop().create_future())


async def test_a_standby_leads_when_the_lease_has_expired(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    store = MemoryStore(clock)
    store.take_leadership("one", LEASE_S)

    with caplog.at_level("INFO"):
        assert await stand_by(store, "two", run_here, asyncio.Event(), clock.tick) == 2

    assert clock.now == 1000 + LEASE_S + 1
    assert [record.getMessage() for record in caplog.records] == [
        "standby: one leads, epoch 1",
        "leads in epoch 2",
    ]


async def test_a_standby_does_not_lead_while_the_leader_commits() -> None:
    clock, stop = Clock(), asyncio.Event()
    store = MemoryStore(clock)
    epoch = store.take_leadership("one", LEASE_S)
    assert epoch is not None

    def go_on() -> None:
        clock.tick()
        if clock.now % 3 == 0:
            store.commit(Commit(epoch=epoch))
        if clock.now > 1100:
            stop.set()

    assert await stand_by(store, "two", run_here, stop, go_on) is None
    assert store.leader().holder == "one"


async def test_a_standby_outlives_the_absence_of_the_database() -> None:
    answers: list[Any] = [Unreachable("The database does not answer."), 7]

    async def run_blocking(*_: object) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert await stand_by(MemoryStore(), "one", run_blocking, asyncio.Event(), lambda: None) == 7


def test_a_holder_is_the_lock_file_on_this_boot_of_this_machine(tmp_path: Path) -> None:
    locks = [tmp_path / "one", tmp_path / "two"]
    for lock in locks:
        lock.touch()
    names = [holder_name("main", lock) for lock in locks]
    assert re.fullmatch(r"main \([0-9a-f-]{36}/\d+/\d+\)", names[0])
    assert names[0] != names[1]
    assert names[0] == holder_name("main", locks[0])


async def test_orders_and_acknowledgements_carry_the_epoch(harness: Harness) -> None:
    world = World(harness.store, a_device())
    harness.start()
    harness.submit()
    await harness.turn(*world.messages(0))
    await harness.turn()
    (_, signed), *_ = harness.orders.sent[world.host]
    assert verify(signed, world.key, world.host).epoch == 2
    answer = genuine(await harness.stream.acknowledged("host") or b"", Acknowledgement, "host", world.key)
    assert answer is not None
    assert answer.epoch == 2


async def test_a_dispatcher_that_was_overtaken_revokes_nothing(harness: Harness) -> None:
    """The other one has launched the job meanwhile, and its host is about to claim it."""
    overtaken = harness.lease
    world = World(harness.store, a_device())
    harness.start()
    job = harness.submit()
    await harness.turn(*world.messages(0))
    await harness.turn()
    with pytest.raises(Conflict):
        overtaken.revoke(AttemptId(job, 1), harness.now)
    with pytest.raises(Conflict):
        overtaken.prune_journal(before=1000)
    harness.deliver(world)
    assert world.starts == [AttemptId(job, 1)]


async def test_a_commit_whose_answer_was_lost_is_kept_once_and_the_dispatcher_goes_on(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the connection to PostgreSQL breaks between the commit and its answer, each time."""
    monkeypatch.setattr("gpuq.daemon.loop._RETRY_S", 0)
    world, commit, kept = World(harness.store, a_device()), harness.store.commit, list[Commit]()

    def loses_the_answer(batch: Commit) -> None:
        commit(batch)
        if not any(batch is one for one in kept):
            kept.append(batch)
            raise Unreachable("The connection broke.")

    monkeypatch.setattr(harness.store, "commit", loses_the_answer)
    job = harness.submit()
    await harness.live(world, 4)
    assert harness.states() == {job: "RUNNING"}
    assert len(kept) > 2
    names = [entry.name for entry in harness.journal()]
    assert (names.count("Submitted"), names.count("Launch"), names.count("Started")) == (1, 1, 1)


async def test_the_epoch_rises_above_the_one_that_a_host_has_seen(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    """As after the record was restored from a backup: the host takes nothing of a lower epoch."""
    world = World(harness.store, a_device())
    *_, report = world.messages(0)
    assert isinstance(report, HostReport)
    await harness.turn(seal(structs.replace(report, epoch=40), world.key))
    assert (harness.lease.epoch, harness.store.leader().epoch) == (41, 41)
    assert "leads in epoch 41: hosts have seen epoch 40, which the record lacks" in caplog.text

    await harness.turn(seal(structs.replace(report, epoch=2**52), world.key))
    assert harness.lease.epoch == 41
    assert "host host claims to have seen epoch 4503599627370496" in caplog.text


async def test_a_dispatcher_that_was_overtaken_does_not_raise_its_epoch(harness: Harness) -> None:
    world = World(harness.store, a_device())
    overtaken = harness.dispatcher
    harness.store.take_leadership("another", -1)
    *_, report = world.messages(0)
    assert isinstance(report, HostReport)
    with pytest.raises(Conflict):
        await overtaken.cycle([("1-1", seal(structs.replace(report, epoch=2), world.key))], read_requests=False)
    assert harness.store.leader().holder == "another"
