"""Delivery: in order, again after two seconds, and nothing lost while Redis is away."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpuq_workers.deliver import Delivery
from gpuq_workers.spool import Spool

from gpuq import wire
from tests.workers.test_spool import event
from tests.workers.twins import Inbox


class Bench:
    def __init__(self, folder: Path, *, acknowledges: bool) -> None:
        self.now = 0.0
        self.spool, self.inbox = Spool(folder, "alpha"), Inbox(acknowledges=acknowledges)
        self.delivery = Delivery(self.spool, self.inbox, "alpha", "a key", monotonic=lambda: self.now)

    async def poll(self, seconds: float) -> list[int]:
        """The numbers sent in a turn after so many seconds."""
        self.now += seconds
        before = len(self.inbox.messages)
        await self.delivery.poll()
        return [message.seq for message in self.inbox.messages[before:] if isinstance(message, wire.Spooled)]


@pytest.fixture
def deaf(tmp_path: Path) -> Bench:
    return Bench(tmp_path, acknowledges=False)


async def test_an_event_is_sent_once_until_two_seconds_pass(deaf: Bench) -> None:
    deaf.spool.write(event())
    assert [await deaf.poll(0), await deaf.poll(1.9), await deaf.poll(0.1)] == [[1], [], [1]]


async def test_later_events_are_sent_again_with_an_unacknowledged_one(deaf: Bench) -> None:
    deaf.spool.write(event(1))
    await deaf.poll(0)
    deaf.spool.write(event(2))
    assert await deaf.poll(1.5) == [2]
    assert await deaf.poll(0.6) == [1, 2]


async def test_acknowledged_events_are_forgotten(tmp_path: Path) -> None:
    bench = Bench(tmp_path, acknowledges=True)
    for job in range(3):
        bench.spool.write(event(job))
    assert await bench.poll(0) == [1, 2, 3]
    assert await bench.poll(0.1) == []
    assert bench.spool.unacknowledged() == []
    assert not list(tmp_path.glob("*.json"))


async def test_events_are_sent_again_after_a_flush_of_redis(tmp_path: Path) -> None:
    bench = Bench(tmp_path, acknowledges=False)
    bench.spool.write(event())
    await bench.poll(0)
    bench.inbox.messages.clear()
    bench.inbox.acknowledges = True
    assert await bench.poll(2) == [1]
    assert bench.inbox.acknowledged_upto == 1


async def test_events_wait_while_redis_is_unreachable(deaf: Bench) -> None:
    deaf.inbox.down = True
    deaf.spool.write(event())
    assert await deaf.poll(0) == []
    deaf.inbox.down = False
    assert await deaf.poll(0.1) == [1]


async def test_a_new_spool_learns_its_number_from_the_dispatcher(deaf: Bench) -> None:
    deaf.inbox.acknowledged_upto = 40
    await deaf.delivery.catch_up()
    assert deaf.spool.write(event()) == 41
