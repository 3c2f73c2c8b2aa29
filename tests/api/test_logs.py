"""Logs: one stream of bytes, from this host or another, also while they are written, never a byte from outside."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from gpuq.adapters.job_log import Chunk, read
from gpuq.api.handlers import logs
from gpuq.core.state.job import JobState
from gpuq.errors import Unreachable
from tests.api.conftest import Endpoint
from tests.api.support import attempt, forecast, record, row

NOW = 1_700_000_000.0


@pytest.fixture
def folder(endpoint: Endpoint) -> Path:
    """Job 7 runs its first attempt."""
    endpoint.store.job_rows[7] = row(7, record(NOW), JobState.RUNNING, attempt=1)
    endpoint.store.set_attempts(attempt(7, "gpu-0", NOW, forecast(50, 5)))
    found = endpoint.settings.home.attempt(7, 1)
    found.mkdir(mode=0o700)
    return found


def end(endpoint: Endpoint, state: JobState = JobState.COMPLETED) -> None:
    endpoint.store.set_attempts(attempt(7, "gpu-0", NOW, forecast(50, 5), ended_at=NOW + 9, exit_code=0))
    endpoint.store.set_state(7, state)


async def body(endpoint: Endpoint, query: str = "") -> bytes:
    async with endpoint.socket.get(f"/api/v1/jobs/7/logs{query}") as answer:
        assert answer.status == 200, await answer.text()
        return await answer.read()


async def test_raw_bytes_whatever_they_are(endpoint: Endpoint, folder: Path) -> None:
    noise = bytes(range(256)) * 5000
    (folder / "output.log").write_bytes(noise)
    assert await body(endpoint) == noise
    assert await body(endpoint, "?offset=1000&limit=50") == noise[1000:1050]
    assert await body(endpoint, "?offset=-10") == noise[-10:]
    assert await body(endpoint, f"?offset={len(noise)}") == b""
    async with endpoint.socket.get("/api/v1/jobs/7/logs?offset=5&limit=10") as answer:
        assert answer.headers["X-Gpuq-Next-Offset"] == "15"
        assert answer.content_type == "application/octet-stream"


async def test_a_proxy_may_ask_with_http_1_0(endpoint: Endpoint, folder: Path) -> None:
    """nginx does, unless it is configured otherwise: the end of the connection is the end of the output."""
    (folder / "output.log").write_bytes(b"epoch 1\n")
    end(endpoint)
    for query in ("", "?follow=1", "?search=epoch"):
        reader, writer = await asyncio.open_unix_connection(endpoint.settings.home.api_socket)
        writer.write(f"GET /api/v1/jobs/7/logs{query} HTTP/1.0\r\nHost: gpuq\r\n\r\n".encode())
        async with asyncio.timeout(60):
            head, _, said = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        assert head.startswith(b"HTTP/1.0 200 OK\r\n"), said
        assert b"\r\nX-Accel-Buffering: no\r\n" in head, "nginx would hold back what a job writes until it has ended"
        assert said == b"epoch 1\n"


async def test_a_deleted_log_differs_from_an_empty_one(endpoint: Endpoint, folder: Path) -> None:
    endpoint.store.set_attempts(attempt(7, "gpu-0", NOW, forecast(50, 5), host=endpoint.settings.worker.host))
    (folder / "output.log").touch()
    assert await body(endpoint) == b""
    (folder / "output.log").unlink()
    async with endpoint.socket.get("/api/v1/jobs/7/logs") as answer:
        assert answer.status == 404
        problem = await answer.json()
    assert "The log of job 7, attempt 1, was deleted" in problem["detail"]
    assert "keep_attempts_days" in problem["hint"]


async def test_an_unknown_attempt_is_404_with_the_number_of_attempts(endpoint: Endpoint, folder: Path) -> None:
    (folder / "output.log").write_bytes(b"first")
    async with endpoint.socket.get("/api/v1/jobs/7/logs?attempt=1") as answer:
        assert (answer.headers["X-Gpuq-Attempt"], await answer.read()) == ("1", b"first")
    async with endpoint.socket.get("/api/v1/jobs/7/logs?attempt=2") as answer:
        assert answer.status == 404
        assert "Job 7 has no attempt 2; it has had 1 so far." in (await answer.json())["detail"]


async def test_segments_are_joined_and_gaps_marked(endpoint: Endpoint, folder: Path) -> None:
    (folder / "output.log").write_bytes(b"head." * 2)
    (folder / "output.log.10").write_bytes(b"joins.")
    (folder / "output.log.100").write_bytes(b"after the gap.")
    assert await body(endpoint) == (b"head.head.joins.\n[gpuq: 84 bytes of output were dropped here]\nafter the gap.")
    assert await body(endpoint, "?offset=102") == b"ter the gap."
    assert await body(endpoint, "?offset=-4") == b"gap."


async def test_following_a_job_to_its_end(endpoint: Endpoint, folder: Path) -> None:
    log = folder / "output.log"
    log.write_bytes(b"one\n")
    async with endpoint.socket.get("/api/v1/jobs/7/logs?follow=1") as answer, asyncio.timeout(60):
        assert await answer.content.readexactly(4) == b"one\n"
        with log.open("ab") as file:
            file.write(b"two\n")
        assert await answer.content.readexactly(4) == b"two\n"
        with log.open("ab") as file:
            file.write(b"last words")
        end(endpoint)
        assert await answer.content.read() == b"last words"


async def test_following_a_job_that_waits_and_runs_twice(endpoint: Endpoint) -> None:
    endpoint.store.job_rows[7] = row(7, record(NOW), JobState.PENDING)
    async with endpoint.socket.get("/api/v1/jobs/7/logs?follow=1") as answer, asyncio.timeout(60):
        for number in (1, 2):
            folder = endpoint.settings.home.attempt(7, number)
            folder.mkdir()
            (folder / "output.log").write_bytes(b"try %d\n" % number)
            endpoint.store.set_attempts(attempt(7, "gpu-0", NOW, forecast(50, 5), number=number, ended_at=NOW + number))
            endpoint.store.set_state(7, JobState.PENDING, attempt=number)
            assert await answer.content.readexactly(6) == b"try %d\n" % number
        endpoint.store.set_state(7, JobState.COMPLETED)
        assert await answer.content.read() == b""


async def test_one_attempt_is_followed_to_its_own_end(endpoint: Endpoint, folder: Path) -> None:
    (folder / "output.log").write_bytes(b"first")
    end(endpoint, JobState.PENDING)
    async with asyncio.timeout(60):
        assert await body(endpoint, "?follow=1&attempt=1") == b"first"


async def test_a_disconnected_follower_ends_the_stream(endpoint: Endpoint, folder: Path) -> None:
    (folder / "output.log").write_bytes(b"x")
    async with endpoint.socket.get("/api/v1/jobs/7/logs?follow=1") as answer:
        assert await answer.content.readexactly(1) == b"x"
        answer.close()
    reads: list[int] = []
    original = endpoint.store.job
    endpoint.store.job = lambda job: reads.append(job) or original(job)  # type: ignore[method-assign, func-returns-value]
    async with asyncio.timeout(60):
        while True:
            before = len(reads)
            await asyncio.sleep(0.7)
            if len(reads) == before:
                break


async def test_a_job_without_output_yet_has_an_empty_log(endpoint: Endpoint) -> None:
    endpoint.store.job_rows[7] = row(7, record(NOW), JobState.PENDING)
    assert await body(endpoint) == b""


class OtherHosts:
    """The logs of the host `rack-3`; `away` makes it silent."""

    def __init__(self) -> None:
        self.log = b"one\n"
        self.away = False

    async def read(self, host: str, job: int, attempt: int, offset: int, limit: int) -> Chunk | None:
        if self.away:
            raise Unreachable(f"Host {host} does not answer.")
        assert (host, job, attempt) == ("rack-3", 7, 1)
        offset = offset if offset >= 0 else max(0, len(self.log) + offset)
        return Chunk(self.log[offset : offset + limit], min(len(self.log), offset + limit))


@pytest.fixture
def elsewhere(endpoint: Endpoint, folder: Path) -> OtherHosts:
    """Job 7 runs on the host `rack-3`, which is not this one."""
    folder.rmdir()
    endpoint.context.host_logs = hosts = OtherHosts()
    return hosts


async def test_the_log_of_another_host_is_read_there(endpoint: Endpoint, elsewhere: OtherHosts) -> None:
    elsewhere.log = b"0123456789" * 100_000
    assert await body(endpoint) == elsewhere.log
    assert await body(endpoint, "?offset=-5") == b"56789"
    assert await body(endpoint, "?offset=10&limit=3") == b"012"


async def test_a_job_on_another_host_is_followed_through_a_time_when_that_host_is_away(
    endpoint: Endpoint, elsewhere: OtherHosts
) -> None:
    async with endpoint.socket.get("/api/v1/jobs/7/logs?follow=1") as answer, asyncio.timeout(60):
        assert await answer.content.readexactly(4) == b"one\n"
        elsewhere.away = True
        elsewhere.log += b"two\n"
        await asyncio.sleep(0.3)
        elsewhere.away = False
        assert await answer.content.readexactly(4) == b"two\n"
        end(endpoint)
        assert await answer.content.read() == b""


async def test_a_host_that_does_not_answer_is_named_with_the_place_of_the_log(
    endpoint: Endpoint, elsewhere: OtherHosts
) -> None:
    elsewhere.away = True
    status, reply = await endpoint.get("/api/v1/jobs/7/logs")
    assert (status, reply["exit_code"]) == (503, 4)
    assert "Host rack-3 does not answer" in reply["detail"]
    assert "It is on host rack-3: " in reply["hint"]


async def test_a_missing_log_is_404(endpoint: Endpoint, folder: Path) -> None:
    folder.rmdir()
    end(endpoint)
    status, reply = await endpoint.get("/api/v1/jobs/7/logs")
    assert (status, reply["exit_code"]) == (404, 3)
    assert "on host rack-3 is gone" in reply["detail"]
    assert (await endpoint.get("/api/v1/jobs/7/logs?attempt=9"))[0] == 404


async def test_thousands_of_planted_segments_cost_little(endpoint: Endpoint, folder: Path) -> None:
    """Each read lists the folder: at most the latest 64 of them are looked at and sent."""
    (folder / "output.log").write_bytes(b"own")
    for number in range(3000):
        (folder / f"output.log.{1000 + number}").write_bytes(b"x")
    looks: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        real = os.stat
        patch.setattr(os, "stat", lambda name, **given: (looks.append(name), real(name, **given))[1])
        chunk = read(endpoint.settings.home.attempts, 7, 1, 0, 100)
    assert (chunk.data, len(looks)) == (b"own", 65)


@pytest.mark.parametrize("name", ["output.log", "output.log.0", "output.log.5"])
async def test_links_and_pipes_give_nothing(endpoint: Endpoint, folder: Path, tmp_path: Path, name: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("canary")
    if name != "output.log":
        (folder / "output.log").touch()
    for make in (lambda p: p.symlink_to(secret), lambda p: p.symlink_to("/proc/self/environ"), os.mkfifo, Path.mkdir):
        make(folder / name)  # type: ignore[operator]
        async with asyncio.timeout(60), endpoint.socket.get("/api/v1/jobs/7/logs") as answer:
            # No plain file at all is a log that was deleted.
            assert answer.status == (404 if name == "output.log" else 200)
            assert "canary" not in await answer.text()
        (folder / name).rmdir() if (folder / name).is_dir() else (folder / name).unlink()


async def test_a_folder_that_is_a_link_gives_nothing(endpoint: Endpoint, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "output.log").write_text("canary")
    folder.rmdir()
    folder.symlink_to(tmp_path / "other")
    status, _ = await endpoint.get("/api/v1/jobs/7/logs")
    assert status == 404


@pytest.mark.parametrize("away", [False, True])
async def test_a_search_gives_the_lines_with_the_text_from_any_host(
    endpoint: Endpoint, elsewhere: OtherHosts, folder: Path, away: bool
) -> None:
    log = b"".join(b"step %d loss %d\n" % (number, number % 7) for number in range(100_000)) + b"at last loss 3"
    elsewhere.log, wanted = log, [line for line in log.splitlines() if b"loss 3" in line]
    if not away:
        folder.mkdir()
        (folder / "output.log").write_bytes(log)
    assert (await body(endpoint, "?search=loss 3")).splitlines() == wanted
    assert (await body(endpoint, "?search=loss 3&offset=-20")).splitlines() == wanted[-1:]
    assert (await body(endpoint, "?search=loss 3&limit=1")).splitlines() == wanted, "a limit has no effect"
    assert await body(endpoint, "?search=LOSS") == b""


async def test_a_search_follows_a_job_to_its_end(endpoint: Endpoint, folder: Path) -> None:
    log = folder / "output.log"
    log.write_bytes(b"loss 1\nother\nlos")
    async with endpoint.socket.get("/api/v1/jobs/7/logs?follow=1&search=loss") as answer, asyncio.timeout(60):
        assert await answer.content.readexactly(7) == b"loss 1\n"
        with log.open("ab") as file:
            file.write(b"s 2\nmore\nloss 3")
        assert await answer.content.readexactly(7) == b"loss 2\n"
        end(endpoint)
        assert await answer.content.read() == b"loss 3\n"


@pytest.mark.parametrize("query", ["search=", "search=a%00b"])
async def test_a_search_that_cannot_be_done_is_refused(endpoint: Endpoint, folder: Path, query: str) -> None:
    (folder / "output.log").write_bytes(b"a\n")
    status, problem = await endpoint.get(f"/api/v1/jobs/7/logs?{query}")
    assert (status, problem["exit_code"]) == (422, 2)


async def test_a_user_has_so_many_searches_at_a_time(
    endpoint: Endpoint, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "MOST_SEARCHES", 1)
    (folder / "output.log").write_bytes(b"loss 1\n")
    async with endpoint.socket.get("/api/v1/jobs/7/logs?follow=1&search=loss") as answer:
        status, problem = await endpoint.get("/api/v1/jobs/7/logs?search=loss")
        assert (status, problem["detail"]) == (429, "At most 1 searches of logs of yours are open at the same time.")
        assert await body(endpoint) == b"loss 1\n", "reading needs no search"
        end(endpoint)
        await answer.read()
    assert await body(endpoint, "?search=loss") == b"loss 1\n"
