"""The journal as a stream: resumable, in order, and without what names no job."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import msgspec
import pytest

from gpuq.adapters.store.row_types import Entry
from gpuq.api.handlers import events
from gpuq.errors import Unreachable
from tests.api.conftest import Endpoint
from tests.api.support import FaultyStore, record


async def take(answer: aiohttp.ClientResponse, count: int) -> list[tuple[int, str, dict[str, Any]]]:
    """The next events as (id, name, data)."""
    found: list[tuple[int, str, dict[str, Any]]] = []
    fields: dict[str, str] = {}
    async with asyncio.timeout(60):
        while len(found) < count:
            line = (await answer.content.readline()).decode().rstrip("\n")
            if not line and "data" in fields:
                found.append((int(fields["id"].partition("-")[0]), fields["event"], json.loads(fields["data"])))
                fields = {}
            elif not line.startswith(":"):
                name, _, value = line.partition(": ")
                fields[name] = value
    return found


async def test_the_stream_starts_at_0_and_continues(endpoint: Endpoint) -> None:
    endpoint.store.tell("Submitted", {"job": 1}, 1)
    endpoint.store.tell("Woke", {})
    endpoint.store.tell("Launch", {"cause": 1}, 1)
    async with endpoint.socket.get("/api/v1/events?after=0") as answer:
        assert answer.content_type == "text/event-stream"
        assert [(seq, name) for seq, name, _ in await take(answer, 2)] == [(1, "Submitted"), (3, "Launch")]
        endpoint.store.tell("Exited", {"text": "two\nlines"}, 1)
        [(seq, name, data)] = await take(answer, 1)
    assert (seq, name) == (4, "Exited")
    assert data["jobs"] == [1]
    assert data["body"] == {"text": "two\nlines"}
    assert data["seq"] == 4


async def test_a_reconnect_misses_and_repeats_nothing(endpoint: Endpoint) -> None:
    for number in range(1, 1201):
        endpoint.store.tell("Submitted", {}, number)
    async with endpoint.socket.get("/api/v1/events?after=0") as answer:
        first = [seq for seq, _, _ in await take(answer, 700)]
    async with endpoint.socket.get("/api/v1/events", headers={"Last-Event-ID": str(first[-1])}) as answer:
        second = [seq for seq, _, _ in await take(answer, 500)]
    assert first + second == list(range(1, 1201))


async def test_without_an_id_the_stream_begins_now(endpoint: Endpoint) -> None:
    endpoint.store.tell("Submitted", {}, 1)
    async with endpoint.socket.get("/api/v1/events") as answer:
        assert await last_id(answer)
        endpoint.store.tell("Submitted", {}, 2)
        assert [seq for seq, _, _ in await take(answer, 1)] == [2]


async def test_a_stream_that_is_cut_before_its_first_event_goes_on_where_it_began(endpoint: Endpoint) -> None:
    """Clients such as `EventSource` know no other place to go on than the last id that came."""
    endpoint.store.tell("Submitted", {}, 1)
    async with endpoint.socket.get("/api/v1/events") as answer:
        began = await last_id(answer)
    endpoint.store.tell("Launch", {}, 1)
    async with endpoint.socket.get("/api/v1/events", headers={"Last-Event-ID": began}) as answer:
        assert [(seq, name) for seq, name, _ in await take(answer, 1)] == [(2, "Launch")]


@pytest.mark.parametrize("by", ["after", "Last-Event-ID"])
async def test_an_id_beyond_the_newest_gets_rewound(endpoint: Endpoint, by: str) -> None:
    endpoint.store.add_jobs([record(1.0)])
    endpoint.store.tell("Submitted", {}, 1)
    query, headers = ("?job=1&after=5000", {}) if by == "after" else ("?job=1", {"Last-Event-ID": "5000"})
    async with endpoint.socket.get(f"/api/v1/events{query}", headers=headers) as answer:
        [(seq, name, data)] = await take(answer, 1)
        assert (seq, name, data["body"]) == (1, "Rewound", {"asked_after": 5000, "last": 1})
        endpoint.store.tell("Launch", {}, 1)
        assert [(seq, name) for seq, name, _ in await take(answer, 1)] == [(2, "Launch")]


async def test_the_newest_id_gets_no_rewound(endpoint: Endpoint) -> None:
    endpoint.store.tell("Submitted", {}, 1)
    async with endpoint.socket.get("/api/v1/events?after=1") as answer:
        endpoint.store.tell("Launch", {}, 1)
        assert [(seq, name) for seq, name, _ in await take(answer, 1)] == [(2, "Launch")]


async def last_id(answer: aiohttp.ClientResponse) -> str:
    """The id of the next event."""
    async with asyncio.timeout(60):
        while not (line := (await answer.content.readline()).decode()).startswith("id: "):
            pass
        await answer.content.readuntil(b"\n\n")
    return line.removeprefix("id: ").strip()


def put_back(store: FaultyStore, last: int, newest: int) -> None:
    """As if a backup that ended with `last` had been put back, and entries had come again up to `newest`."""
    del store.entries[last:]
    for entry in range(last + 1, newest + 1):
        store.tell("Launch", {"again": entry}, 1)
        store.entries[-1] = msgspec.structs.replace(store.entries[-1], at=store.entries[-1].at + 3600.0)


@pytest.mark.parametrize("by", ["after", "Last-Event-ID"])
@pytest.mark.parametrize("newest", [2, 5, 9])
async def test_a_reused_number_with_another_moment_gets_rewound(endpoint: Endpoint, by: str, newest: int) -> None:
    for _ in range(5):
        endpoint.store.tell("Submitted", {}, 1)
    async with endpoint.socket.get("/api/v1/events?after=4") as answer:
        seen = await last_id(answer)
    put_back(endpoint.store, 2, newest)
    query, headers = (f"?after={seen}", {}) if by == "after" else ("", {"Last-Event-ID": seen})
    async with endpoint.socket.get(f"/api/v1/events{query}", headers=headers) as answer:
        [(seq, name, data)] = await take(answer, 1)
        assert (seq, name, data["body"]) == (newest, "Rewound", {"asked_after": 5, "last": newest})
        endpoint.store.tell("Exited", {}, 1)
        again = await last_id(answer)
    async with endpoint.socket.get("/api/v1/events", headers={"Last-Event-ID": again}) as answer:
        endpoint.store.tell("Archive", {}, 1)
        assert [name for _, name, _ in await take(answer, 1)] == ["Archive"]


async def test_an_id_older_than_the_backup_misses_nothing(endpoint: Endpoint) -> None:
    for _ in range(5):
        endpoint.store.tell("Submitted", {}, 1)
    async with endpoint.socket.get("/api/v1/events?after=1") as answer:
        seen = await last_id(answer)
    put_back(endpoint.store, 2, 6)
    async with endpoint.socket.get("/api/v1/events", headers={"Last-Event-ID": seen}) as answer:
        found = [(seq, name) for seq, name, _ in await take(answer, 4)]
    assert found == [(3, "Launch"), (4, "Launch"), (5, "Launch"), (6, "Launch")]


async def test_a_pruned_id_gets_rewound(endpoint: Endpoint) -> None:
    for _ in range(3):
        endpoint.store.tell("Submitted", {}, 1)
    async with endpoint.socket.get("/api/v1/events?after=0") as answer:
        seen = await last_id(answer)
    del endpoint.store.entries[:2]
    async with endpoint.socket.get("/api/v1/events", headers={"Last-Event-ID": seen}) as answer:
        assert [(seq, name) for seq, name, _ in await take(answer, 1)] == [(3, "Rewound")]


async def test_one_job_or_all(endpoint: Endpoint) -> None:
    endpoint.store.add_jobs([record(1.0), record(1.0)])
    for jobs in ((1,), (), (2,), (1, 2)):
        endpoint.store.tell("Hold", {}, *jobs)
    async with endpoint.socket.get("/api/v1/events?after=0&job=2") as answer:
        assert [seq for seq, _, _ in await take(answer, 2)] == [3, 4]
    async with endpoint.socket.get("/api/v1/events?after=0&all=1") as answer:
        assert [seq for seq, _, _ in await take(answer, 4)] == [1, 2, 3, 4]


async def test_a_comment_keeps_the_line_open(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_HEARTBEAT_S", 0.05)
    async with endpoint.socket.get("/api/v1/events") as answer, asyncio.timeout(60):
        await answer.content.readuntil(b"\n\n")
        assert (await answer.content.readuntil(b"\n\n")).startswith(b": ping")
    assert events.EventSourceResponse.DEFAULT_PING_INTERVAL == 15


async def test_the_stream_survives_an_absent_database(endpoint: Endpoint) -> None:
    tries: list[int] = []
    journal = endpoint.store.journal

    def away(**asked: Any) -> list[Entry]:
        tries.append(1)
        if len(tries) < 3:
            raise Unreachable("The database does not answer.")
        return journal(**asked)

    endpoint.store.journal = away  # type: ignore[method-assign, assignment]
    endpoint.store.tell("Submitted", {}, 1)
    async with endpoint.socket.get("/api/v1/events?after=0") as answer:
        assert [seq for seq, _, _ in await take(answer, 1)] == [1]
    assert len(tries) >= 3


async def test_a_reconnect_waits_for_an_absent_database(endpoint: Endpoint) -> None:
    endpoint.store.tell("Submitted", {}, 1)
    endpoint.store.refuse = Unreachable("The database does not answer.")
    async with (
        endpoint.socket.get("/api/v1/events?after=1") as answer,
        endpoint.socket.get("/api/v1/events?after=7") as other,
    ):
        assert await answer.content.readline() == b": after 1\n"
        assert await other.content.readline() == b": after 7\n"
        endpoint.store.refuse = None
        endpoint.store.tell("Launch", {}, 1)
        assert [seq for seq, _, _ in await take(answer, 1)] == [2]
        assert [name for _, name, _ in await take(other, 1)] == ["Rewound"]


async def test_a_user_has_so_many_streams_at_a_time_and_one_that_is_closed_makes_room(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "MOST_STREAMS", 2)
    async with endpoint.socket.get("/api/v1/events"):
        async with endpoint.socket.get("/api/v1/events"):
            status, problem = await endpoint.get("/api/v1/events")
            assert (status, problem["detail"]) == (
                429,
                "At most 2 streams of events of yours are open at the same time.",
            )
        endpoint.store.tell("Submitted", {"job": 1}, 1)  # what is written to a closed connection shows that it is
        async with asyncio.timeout(20):
            while sum(endpoint.context.open_requests.values()) > 1:
                await asyncio.sleep(0.01)
        async with endpoint.socket.get("/api/v1/events") as answer:
            assert answer.status == 200
