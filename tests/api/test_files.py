"""Files that submitters send, and those that their jobs made, through HTTP: what is refused, and to whom."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import pwd
import socket
import threading
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from gpuq.core.state.job import JobState
from gpuq.errors import Conflict
from gpuq.files import Receiver, SentFile, last_line, pieces_of
from tests.adapters.store.samples import an_attempt
from tests.api.conftest import Endpoint
from tests.api.support import submission
from tests.api.test_tokens import as_uid

__all__ = ["as_uid"]
TEXT = b"print('hello')\n"
DIGEST = hashlib.sha256(TEXT).hexdigest()
FILES = [{"name": "train.py", "size": len(TEXT), "sha256": DIGEST}]


def stream(*contents: bytes) -> bytes:
    pieces = (pieces_of(SentFile("any", len(content)), io.BytesIO(content)) for content in contents)
    return b"".join(piece for one in pieces for piece in one) + last_line(len(contents))


async def send(endpoint: Endpoint, body: bytes, **headers: str) -> tuple[int, Any]:
    client = endpoint.tcp if headers else endpoint.socket
    async with client.post("/api/v1/trees/files", data=body, headers=headers) as answer:
        return answer.status, await answer.json(content_type=None)


async def kept_tree(endpoint: Endpoint) -> str:
    await send(endpoint, stream(TEXT))
    status, answer = await endpoint.post("/api/v1/trees", {"files": FILES})
    assert (status, answer["missing"]) == (200, [])
    return str(answer["tree"])


def synced(tree: str, **fields: Any) -> dict[str, Any]:
    return submission(sync={"tree": tree, "folder": "/home/ada"}, **fields)


async def test_a_tree_is_taken_in_rounds_and_can_be_submitted_then(endpoint: Endpoint) -> None:
    status, answer = await endpoint.post("/api/v1/trees", {"files": FILES})
    assert (status, answer["missing"]) == (200, [DIGEST])
    tree = answer["tree"]
    status, problem = await endpoint.post("/api/v1/jobs", synced(tree))
    assert (status, "are not here" in problem["detail"]) == (409, True)
    assert await send(endpoint, stream(TEXT)) == (200, {"count": 1})
    assert await kept_tree(endpoint) == tree
    status, job = await endpoint.post("/api/v1/jobs", synced(tree))
    assert status == 201
    assert (await endpoint.get(f"/api/v1/jobs/{job['id']}"))[1]["synced"] is True


@pytest.mark.parametrize(
    ("file", "status", "sentence"),
    [
        ({"name": "../up"}, 422, "name"),
        ({"name": "/etc/passwd"}, 422, "name"),
        ({"name": "a/.git/config"}, 422, "name"),
        ({"size": -1}, 422, "size"),
        ({"sha256": "../../x"}, 422, "sha256"),
        (
            {"size": 300 * 2**20},
            403,
            "The files have 300.0 MiB; this gpuq takes 256.0 MiB. The largest are train.py (300.0 MiB)",
        ),
        ({"name": "train.py/inner"}, 409, "twice, or as a file and as a folder"),
        ({"name": "train.py"}, 409, "twice"),
    ],
)
async def test_a_list_that_cannot_be_is_refused(
    file: dict[str, Any], status: int, sentence: str, endpoint: Endpoint
) -> None:
    first = [] if status != 409 else FILES
    found, problem = await endpoint.post("/api/v1/trees", {"files": [*first, {**FILES[0], **file}]})
    assert (found, sentence in problem["detail"]) == (status, True), problem
    assert problem["hint"]


async def test_a_list_of_deep_folders_takes_little_memory(endpoint: Endpoint) -> None:
    files = [{**FILES[0], "name": f"{number}/{'a/' * 500}x"} for number in range(800)]
    tracemalloc.start()
    try:
        assert (await endpoint.post("/api/v1/trees", {"files": files}))[0] == 200
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()
    status, problem = await endpoint.post("/api/v1/trees", {"files": [*files, {**FILES[0], "name": "7/a/a"}]})
    assert (status, "as a file and as a folder" in problem["detail"]) == (409, True)
    others = [{**FILES[0], "name": name} for name in ("a", "a.b/c", "a-b", "b/c", "b.c", "b/c.d")]
    assert (await endpoint.post("/api/v1/trees", {"files": others}))[0] == 200


async def test_no_body_is_no_file(endpoint: Endpoint) -> None:
    async with endpoint.socket.post("/api/v1/trees/files") as answer:
        assert (answer.status, await answer.json()) == (200, {"count": 0})


@pytest.mark.parametrize("body", [b"nonsense\n", stream(TEXT)[:-5], b"\x00" * 100_000])
async def test_a_body_that_is_no_stream_is_refused_and_leaves_nothing(body: bytes, endpoint: Endpoint) -> None:
    status, problem = await send(endpoint, body)
    assert (status, "no stream of files" in problem["detail"]) == (400, True)
    assert not list(endpoint.settings.home.synced.rglob(DIGEST)) or body == stream(TEXT)[:-5]


async def test_a_user_cannot_name_what_another_has_sent(endpoint: Endpoint, as_uid: Callable[[int], None]) -> None:
    tree = await kept_tree(endpoint)
    as_uid(pwd.getpwnam("daemon").pw_uid)
    status, answer = await endpoint.post("/api/v1/trees", {"files": FILES})
    assert (status, answer["missing"]) == (200, [DIGEST]), "that it is there is not to be seen"
    status, problem = await endpoint.post("/api/v1/jobs", synced(tree))
    assert (status, "are not here" in problem["detail"]) == (409, True)
    assert not endpoint.store.jobs()


async def test_what_a_user_may_have_is_bounded_and_room_is_made_of_what_no_job_needs(endpoint: Endpoint) -> None:
    endpoint.context.settings = replace(endpoint.settings, api=replace(endpoint.settings.api, sync_user_bytes=2 * 4096))
    tree = await kept_tree(endpoint)
    status, job = await endpoint.post("/api/v1/jobs", synced(tree, hold=True))
    other = b"0123456789"
    files = [{"name": "a", "size": len(other), "sha256": hashlib.sha256(other).hexdigest()}]
    now = endpoint.context.now()
    endpoint.context.clock = lambda: now + 7200  # what was just sent is never removed
    status, problem = await endpoint.post("/api/v1/trees", {"files": files})
    assert (status, "would take more than" in problem["detail"]) == (403, True), "a job that waits needs the rest"
    assert (await send(endpoint, stream(other)))[0] == 403, "nor without asking"
    endpoint.store.set_state(job["id"], JobState.CANCELLED)
    assert (await endpoint.post("/api/v1/trees", {"files": files}))[0] == 200
    assert (await send(endpoint, stream(other)))[0] == 200


async def test_uploads_that_take_long_keep_no_user_from_reading(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = threading.Event()
    monkeypatch.setattr(Receiver, "feed", lambda *_: disk.wait(20))
    sending = [asyncio.create_task(send(endpoint, stream(TEXT))) for _ in range(8)]
    try:
        for _ in range(8):
            assert (await endpoint.get("/api/v1/jobs"))[0] == 200
    finally:
        disk.set()
        await asyncio.gather(*sending)


async def test_where_files_are_not_taken_the_sentence_says_so(endpoint: Endpoint) -> None:
    for settings, sentence in (
        (replace(endpoint.settings, api=replace(endpoint.settings.api, sync_tree_bytes=0)), "takes no files"),
    ):
        endpoint.context.settings = settings
        for status, problem in (
            await endpoint.post("/api/v1/trees", {"files": FILES}),
            await send(endpoint, stream(TEXT)),
        ):
            assert (status, sentence in problem["detail"]) == (403, True)


class OfHost:
    """Connections for the files of jobs: what a host would send, or None where it has none."""

    def __init__(self, sent: bytes | None) -> None:
        self.sent, self.asked = sent, b""
        self.of: tuple[Any, ...] = ()

    async def open(self, *of: Any) -> socket.socket:
        self.of = of
        if self.sent is None:
            raise Conflict("Job 1 does not listen for this now.")
        ours, theirs = socket.socketpair()
        ours.setblocking(False)

        def answer() -> None:
            with theirs:
                self.asked = theirs.makefile("rb").readline()
                theirs.sendall(self.sent or b"")

        self.thread = asyncio.get_running_loop().run_in_executor(None, answer)
        return ours


async def started(endpoint: Endpoint, **fields: Any) -> int:
    _, job = await endpoint.post("/api/v1/jobs", fields or synced(await kept_tree(endpoint)))
    endpoint.store.set_state(job["id"], JobState.RUNNING, attempt=1)
    endpoint.store.set_attempts(msgspec.structs.replace(an_attempt(job["id"]), started_at=5.0))
    return int(job["id"])


async def test_the_files_of_a_job_pass_through(endpoint: Endpoint) -> None:
    job = await started(endpoint)
    endpoint.context.channels = host = OfHost(stream(b"x" * 300_000))
    async with endpoint.socket.get(f"/api/v1/jobs/{job}/files?match=a,b/*.csv") as answer:
        assert (answer.status, await answer.read()) == (200, stream(b"x" * 300_000))
    assert json.loads(host.asked) == {"match": ["a", "b/*.csv"]}
    assert host.of[1:] == (job, 1, "files")


async def test_files_that_are_not_to_be_had_are_refused_with_a_reason(endpoint: Endpoint) -> None:
    endpoint.context.channels = OfHost(None)
    _, plain = await endpoint.post("/api/v1/jobs", submission())
    tree = await kept_tree(endpoint)
    _, waiting = await endpoint.post("/api/v1/jobs", synced(tree))
    gone = await started(endpoint)
    for job, status, sentence in (
        (plain["id"], 409, "was not submitted with --sync"),
        (waiting["id"], 404, "has not started"),
        (gone, 404, "does not have the files"),
        (99, 404, "There is no job 99"),
    ):
        found, problem = await endpoint.get(f"/api/v1/jobs/{job}/files")
        assert (found, sentence in problem["detail"]) == (status, True), problem
    assert (await endpoint.get(f"/api/v1/jobs/{gone}/files?attempt=3"))[1]["detail"].startswith(
        f"Job {gone} has no attempt 3"
    )


async def test_only_the_owner_and_admins_get_them(endpoint: Endpoint, as_uid: Callable[[int], None]) -> None:
    job = await started(endpoint)
    endpoint.context.channels = OfHost(stream())
    as_uid(pwd.getpwnam("daemon").pw_uid)
    api = replace(endpoint.context.settings.api, others_jobs="full", operators=("daemon",))
    endpoint.context.settings = replace(endpoint.context.settings, api=api)
    status, problem = await endpoint.get(f"/api/v1/jobs/{job}/files")
    assert (status, "are for" in problem["detail"]) == (403, True)
