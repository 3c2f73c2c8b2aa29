"""Event streams that wait at the same place of the journal share a read of it."""

from __future__ import annotations

import asyncio

import pytest

from gpuq.adapters.store.row_types import Entry
from gpuq.api.journal_reader import JournalReader, Place
from gpuq.errors import Unreachable


class Journal:
    """Counts the reads; each waits until it is let go on."""

    def __init__(self) -> None:
        self.read_at: list[Place] = []
        self.go_on = asyncio.Event()
        self.fault: Exception | None = None
        self.now = 100.0

    async def read(self, place: Place) -> list[Entry]:
        self.read_at.append(place)
        await self.go_on.wait()
        if self.fault is not None:
            raise self.fault
        return [Entry(seq=place[0] + 1, at=1.0, name="Started", body={}, jobs=(1,))]


async def test_streams_at_one_place_share_a_read_for_a_moment() -> None:
    journal = Journal()
    reader = JournalReader(journal.read, lambda: journal.now)
    streams = [asyncio.create_task(reader.entries((7, None, True))) for _ in range(50)]
    other = asyncio.create_task(reader.entries((6, None, True)))
    await asyncio.sleep(0)
    streams[0].cancel()
    await asyncio.sleep(0)
    journal.go_on.set()
    answers = await asyncio.gather(*streams[1:])
    assert {answer[0].seq for answer in answers} == {8}, "although one of them went away"
    assert (await other)[0].seq == 7
    assert journal.read_at == [(7, None, True), (6, None, True)]
    await reader.entries((7, None, True))
    assert len(journal.read_at) == 2
    journal.now += 1
    await reader.entries((7, None, True))
    assert len(journal.read_at) == 3


async def test_a_read_that_fails_fails_for_all_and_is_tried_again() -> None:
    journal = Journal()
    reader = JournalReader(journal.read, lambda: journal.now)
    journal.go_on.set()
    journal.fault = Unreachable("The database does not answer.")
    for _ in range(2):
        with pytest.raises(Unreachable):
            await reader.entries((7, None, True))
        journal.now += 1
    journal.fault = None
    assert (await reader.entries((7, None, True)))[0].seq == 8
