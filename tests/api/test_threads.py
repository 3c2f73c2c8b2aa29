"""No user's calls keep those of others waiting, whatever takes long: a selection of the record, or an analysis of it."""

from __future__ import annotations

import asyncio
import pwd
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from contextvars import copy_context
from typing import Any

import pytest

from gpuq.api import tokens
from gpuq.api.context import ANALYSES_WAITING, READ_THREADS, READS_OF_USER
from gpuq.api.contract.problem import TooManyAtOnce
from gpuq.api.handlers import jobs
from gpuq.api.threads import ASKING, Asking, SharedThreads
from gpuq.messages.job_record import JobRecord, QueuedRecord
from tests.api.conftest import Endpoint
from tests.api.support import SmallModels, submission

OTHER = "daemon"
FLOOD = 2 * (READ_THREADS + ANALYSES_WAITING)


@asynccontextmanager
async def flood(
    endpoint: Endpoint, path: str, begun: threading.Event, go_on: threading.Event
) -> AsyncIterator[list[asyncio.Task[int]]]:
    """Many edits of another user, of which the first has begun."""
    token, text = tokens.new_token(OTHER, pwd.getpwnam(OTHER).pw_uid, "user", None, 0.0, None)
    endpoint.store.add_token(token)
    body = {"where": {"owner": "me"}, "edit": {"priority": -1}, "dry_run": True}

    async def one() -> int:
        async with endpoint.tcp.post(path, json=body, headers={"Authorization": f"Bearer {text}"}) as answer:
            return answer.status

    asked = [asyncio.create_task(one()) for _ in range(FLOOD)]
    assert await asyncio.to_thread(begun.wait, 60)
    try:
        yield asked
    finally:
        go_on.set()
        await asyncio.gather(*asked)


async def test_a_user_who_selects_without_end_keeps_no_one_from_reading(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on, select = threading.Event(), threading.Event(), endpoint.store.select

    def slow_select(selection: Any) -> Any:
        begun.set()
        go_on.wait(60)
        return select(selection)

    monkeypatch.setattr(endpoint.store, "select", slow_select)
    async with flood(endpoint, "/api/v1/jobs/edit", begun, go_on), asyncio.timeout(3):
        assert (await endpoint.get("/api/v1/jobs"))[0] == 200


async def test_lists_do_not_wait_for_the_analyses_of_others(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They leave the forecast out. Too many analyses of one user are refused."""
    begun, go_on = threading.Event(), threading.Event()

    class SlowModels(SmallModels):
        def forecasts(self, records: Iterable[JobRecord | QueuedRecord]) -> dict[str, dict[str, Any]]:
            begun.set()
            go_on.wait(60)
            return super().forecasts(records)

    await endpoint.post("/api/v1/jobs", submission())
    endpoint.context.models = SlowModels()
    monkeypatch.setattr(jobs, "_FORECASTS_WITHIN_S", 0.05)
    async with flood(endpoint, "/api/v1/jobs/edit/preview", begun, go_on) as asked:
        status, found = await endpoint.get("/api/v1/jobs")
        assert (status, [job["forecast"] for job in found["jobs"]]) == (200, [None])
        async with asyncio.timeout(60):
            while sum(task.done() for task in asked) < FLOOD - ANALYSES_WAITING - 1:
                await asyncio.sleep(0.005)
        assert {task.result() for task in asked if task.done()} == {429}
    assert [task.result() for task in asked].count(200) == ANALYSES_WAITING + 1
    _, found = await endpoint.get("/api/v1/jobs")
    assert found["jobs"][0]["forecast"] is not None


def asked_by(user: str, call: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    context = copy_context()
    context.run(ASKING.set, Asking(user, lambda: False))
    return asyncio.create_task(call, context=context)


@pytest.fixture
def made() -> list[str]:
    return []


def waiting_for(go_on: threading.Event, made: list[str]) -> Callable[[str], str]:
    def call(name: str) -> str:
        made.append(name)
        assert go_on.wait(60)
        return name

    return call


async def test_each_user_has_turns_and_gpuq_itself_has_no_limit(made: list[str]) -> None:
    threads, go_on = SharedThreads(4, 2, "test"), threading.Event()
    call = waiting_for(go_on, made)
    tasks = [asked_by("ann", threads.run(call, f"ann {place}")) for place in range(5)]
    tasks += [asked_by("bob", threads.run(call, "bob"))]
    tasks += [asyncio.create_task(threads.run(call, "gpuq"))]
    async with asyncio.timeout(60):
        while len(made) < 4:
            await asyncio.sleep(0)
        assert sorted(made) == ["ann 0", "ann 1", "bob", "gpuq"]
        go_on.set()
        assert await asyncio.gather(*tasks) == [*(f"ann {place}" for place in range(5)), "bob", "gpuq"]
    threads.stop()


async def test_what_was_given_up_before_its_turn_is_not_made_and_a_thread_that_works_on_is_still_taken(
    made: list[str],
) -> None:
    threads, go_on = SharedThreads(4, 1, "test", most_waiting=2), threading.Event()
    call = waiting_for(go_on, made)
    first, second, third = (asked_by("ann", threads.run(call, name)) for name in ("first", "second", "third"))
    async with asyncio.timeout(60):
        while not made:
            await asyncio.sleep(0)
        with pytest.raises(TooManyAtOnce):
            await asked_by("ann", threads.run(call, "too many"))
        first.cancel()
        second.cancel()
        await asyncio.wait({first, second})
        assert made == ["first"]
        go_on.set()
        assert await third == "third"
    assert made == ["first", "third"]
    threads.stop()


async def test_what_streams_of_all_users_share_waits_for_no_user(endpoint: Endpoint, made: list[str]) -> None:
    """The read of the journal was begun by a user all of whose turns are taken."""
    go_on = threading.Event()
    endpoint.store.tell("Submitted", {}, 1)
    reads = [asked_by("ann", endpoint.context.run(waiting_for(go_on, made), f"read {n}")) for n in range(READS_OF_USER)]
    async with asyncio.timeout(30):
        entries = await asked_by("ann", endpoint.context.journal.entries((0, None, False)))
        assert [entry.name for entry in entries] == ["Submitted"]
        go_on.set()
        await asyncio.gather(*reads)


async def test_nothing_is_analysed_for_a_client_that_has_hung_up(endpoint: Endpoint, made: list[str]) -> None:
    ASKING.set(Asking("ann", lambda: True))
    with pytest.raises(ConnectionResetError):
        await endpoint.context.analyse(made.append, "analysed")
    assert made == []
