"""Delivery: in order, again after two seconds, nothing lost while Redis is away, and no forged acknowledgement counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from gpuq_workers.deliver import Delivery
from gpuq_workers.epoch import SeenEpoch
from gpuq_workers.spool import Spool

from gpuq.messages import wire
from tests.workers.test_spool import event
from tests.workers.twins import KEY, Inbox


class Bench:
    def __init__(self, folder: Path, *, acknowledges: bool) -> None:
        self.now, self.folder = 0.0, folder
        self.inbox = Inbox(acknowledges=acknowledges)
        self.restart()

    def restart(self) -> None:
        """A new process of the worker service."""
        self.spool = Spool(self.folder, "alpha")
        self.delivery = Delivery(
            self.spool, self.inbox, "alpha", KEY, SeenEpoch(self.folder / "epoch"), uptime=lambda: self.now
        )

    async def poll(self, seconds: float) -> list[int]:
        """The numbers sent in a turn after so many seconds."""
        self.now += seconds
        before = len(self.inbox.messages)
        await self.delivery.poll()
        return [message.seq for message in self.inbox.messages[before:] if isinstance(message, wire.Spooled)]

    async def report(self) -> wire.HostReport:
        """Send a report; as it arrived."""
        await self.delivery.report(wire.HostReport("alpha", self.spool.last, {}))
        return self.inbox.reports()[-1]

    async def send(self, *, count: int) -> list[int]:
        """The numbers under which this many new events are sent for the first time."""
        for job in range(count):
            await self.spool.write(event(job))
        await self.report()
        return await self.poll(0)


@pytest.fixture
async def deaf(tmp_path: Path) -> Bench:
    """The dispatcher answers reports, and commits no event."""
    bench = Bench(tmp_path, acknowledges=False)
    await bench.report()
    return bench


async def test_an_event_is_sent_once_until_two_seconds_pass(deaf: Bench) -> None:
    await deaf.spool.write(event())
    assert [await deaf.poll(0), await deaf.poll(1.9), await deaf.poll(0.1)] == [[1], [], [1]]


async def test_later_events_are_sent_again_with_an_unacknowledged_one(deaf: Bench) -> None:
    await deaf.spool.write(event(1))
    await deaf.poll(0)
    await deaf.spool.write(event(2))
    assert await deaf.poll(1.5) == [2]
    assert await deaf.poll(0.6) == [1, 2]


async def test_acknowledged_events_are_forgotten(tmp_path: Path) -> None:
    bench = Bench(tmp_path, acknowledges=True)
    assert await bench.send(count=3) == [1, 2, 3]
    assert await bench.poll(0.1) == []
    assert bench.spool.unacknowledged() == []
    assert not list(tmp_path.glob("*.json"))
    assert len(list((tmp_path / "committed").glob("*.json"))) == 3


async def test_events_are_sent_again_after_a_flush_of_redis(deaf: Bench) -> None:
    assert await deaf.send(count=1) == [1]
    deaf.inbox.messages.clear()
    deaf.inbox.acknowledges = True
    assert await deaf.poll(2) == [1]
    assert deaf.inbox.acknowledged_upto == 1


async def test_events_wait_while_redis_is_unreachable(deaf: Bench) -> None:
    deaf.inbox.down = True
    await deaf.spool.write(event())
    assert await deaf.poll(0) == []
    deaf.inbox.down = False
    assert await deaf.poll(0.1) == [1]


# --- what the dispatcher has -----------------------------------------------------------------------------------------


async def test_a_new_spool_of_a_known_host_continues_its_numbers(tmp_path: Path) -> None:
    bench = Bench(tmp_path, acknowledges=True)
    bench.inbox.acknowledged_upto = 2
    for job in range(3):
        await bench.spool.write(event(job))

    assert await bench.poll(0) == [], "the numbers 1 and 2 were used before the spool was lost"
    await bench.report()
    bench.restart()
    assert await bench.send(count=1) == [3, 4, 5, 6]
    await bench.poll(0.1)
    assert bench.spool.unacknowledged() == []
    bench.restart()
    assert await bench.send(count=1) == [7]


async def test_a_spool_from_an_older_copy_of_the_disk_skips_the_numbers_used_since(deaf: Bench) -> None:
    await deaf.send(count=1)
    deaf.inbox.acknowledged_upto = 40

    assert (await deaf.report()).first_seq == 41
    assert await deaf.poll(0) == [41]


async def test_reports_say_where_the_spool_begins(deaf: Bench) -> None:
    await deaf.send(count=3)
    spans = []
    for committed in (0, 2, 3):
        deaf.inbox.acknowledged_upto = committed
        report = await deaf.report()
        spans.append((report.first_seq, report.committed, report.last_seq))
    assert spans == [(1, 0, 3), (1, 2, 3), (1, 3, 3)]


async def test_a_report_names_the_dispatcher_that_answered_and_counts_up(deaf: Bench) -> None:
    deaf.inbox.dispatcher = "the next dispatcher"
    second, third = [await deaf.report() for _ in range(2)]
    deaf.restart()
    fourth = await deaf.report()

    numbers = [report.number for report in (second, third, fourth)]
    assert [(one.number, one.dispatcher) for one in numbers] == [
        (2, "the next dispatcher"),
        (3, "the next dispatcher"),
        (4, "the next dispatcher"),
    ]
    assert numbers[0].worker == numbers[1].worker != numbers[2].worker


# --- forged and replayed ---------------------------------------------------------------------------------------------


def acknowledgement(bench: Bench, key: str = KEY, **changes: object) -> bytes:
    """One that answers the last report, but for these changes."""
    number = bench.inbox.answered
    assert number is not None
    values = {"host": "alpha", "seq": 2, "worker": number.worker, "number": number.number, "dispatcher": "d", **changes}
    return wire.encode(wire.seal(wire.Acknowledgement(**values), key))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "forged",
    [
        lambda bench: b"1000000000",
        lambda bench: acknowledgement(bench, "another key"),
        lambda bench: acknowledgement(bench).replace(b'"seq":2', b'"seq":1000000000'),
        lambda bench: acknowledgement(bench, host="beta"),
        lambda bench: acknowledgement(bench, worker="the process before this one"),
        lambda bench: acknowledgement(bench, number=1),
        lambda bench: b"\xff",
    ],
    ids=["bare", "other key", "changed", "other host", "other process", "earlier report", "no JSON"],
)
async def test_an_acknowledgement_that_does_not_answer_this_process_deletes_nothing(
    deaf: Bench, forged: Callable[[Bench], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    await deaf.send(count=3)
    await deaf.poll(0.1)
    answer = forged(deaf)
    monkeypatch.setattr(deaf.inbox, "acknowledged", lambda _host: asyncio.sleep(0, answer))

    await deaf.poll(2)
    await deaf.report()

    assert [message.seq for message in deaf.spool.unacknowledged()] == [1, 2, 3]
    assert deaf.spool.last == 3


async def test_an_acknowledgement_of_a_lower_epoch_deletes_nothing(
    deaf: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await deaf.send(count=2)
    SeenEpoch(deaf.folder / "epoch").admits(7)
    for epoch, left in ((6, [1, 2]), (7, [])):
        answer = acknowledgement(deaf, epoch=epoch)
        monkeypatch.setattr(deaf.inbox, "acknowledged", lambda _host, answer=answer: asyncio.sleep(0, answer))
        await deaf.poll(0.1)
        assert [message.seq for message in deaf.spool.unacknowledged()] == left
    assert (await deaf.report()).epoch == 7


async def test_events_that_the_record_lost_are_sent_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A replica without the last commits was promoted, and its dispatcher says how far the record goes."""
    bench = Bench(tmp_path, acknowledges=True)
    await bench.send(count=5)
    assert (await bench.report()).committed == 5
    bench.inbox.acknowledged_upto = 3
    bench.inbox.acknowledges = False
    await bench.report()
    assert await bench.poll(0) == [4, 5]
    assert (await bench.report()).committed == 3
    assert "the dispatcher's record lost events 4 to 5 of this host" in caplog.text


# --- leases ----------------------------------------------------------------------------------------------------------


async def test_an_answer_counts_from_when_its_report_was_sent_and_once(deaf: Bench) -> None:
    renewed: list[float] = []
    deaf.delivery.on_answer = renewed.append
    deaf.now = 100.0
    await deaf.report()  # reads the answer to the report of the fixture
    deaf.now = 130.0
    await deaf.spool.write(event())
    for _ in range(3):
        await deaf.poll(1.0)  # the same answer again and again, as while the dispatcher is gone
    assert renewed == [0.0, 100.0]


async def test_an_answer_to_another_process_renews_no_lease(deaf: Bench) -> None:
    deaf.restart()
    renewed: list[float] = []
    deaf.delivery.on_answer = renewed.append
    await deaf.report()
    assert renewed == []
    await deaf.report()
    assert renewed == [0.0]
