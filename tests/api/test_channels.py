"""Who may work in a job, over the socket and over TCP, and what reaches the job: its bytes, unchanged."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from typing import Any

import aiohttp
import pytest

from gpuq.adapters.store.row_types import AttemptRow
from gpuq.api.contract import limits
from gpuq.api.identity import cookie_name, cookie_value, page_key
from gpuq.core.state.job import JobId, JobState
from tests.api.conftest import TOKEN, Endpoint
from tests.api.support import submission
from tests.api.test_visibility import ADA, ANN, BOB, OLA, Shared, shared
from tests.support.patience import until

__all__ = ["shared"]


class Host:
    """The host of all jobs: `job` is the job's side of the last connection."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, int, str]] = []
        self.job: socket.socket | None = None

    async def open(self, host: str, job: int, attempt: int, name: str) -> socket.socket:
        self.asked.append((host, job, attempt, name))
        ours, self.job = socket.socketpair()
        for side in (ours, self.job):
            side.setblocking(False)
        return ours


async def run(endpoint: Endpoint, submitted: int, **changes: Any) -> Host:
    """Let the job run on a host."""
    attempt: dict[str, Any] = {
        "number": 1,
        "host": "node2",
        "devices": ("gpu-0",),
        "launched_at": 1.0,
        "started_at": 1.0,
    }
    attempt |= {"launch": {}, "features": {}, "model_version": None, **changes}
    endpoint.store.set_attempts(AttemptRow(job=JobId(submitted), **attempt))
    endpoint.store.set_state(submitted, JobState.RUNNING, attempt=1)
    endpoint.context.channels = host = Host()
    return host


async def test_only_the_owner_and_admins_work_in_a_job(shared: Shared) -> None:
    job = await shared.submit(ANN, interactive="terminal", env={"JUPYTER_TOKEN": "s3cret"})
    host = await run(shared.endpoint, job)
    for uid, may in ((ANN, True), (BOB, False), (OLA, False), (ADA, True)):
        shared.uid = uid
        path = f"/api/v1/jobs/{job}/channels/terminal"
        if may:
            async with shared.endpoint.socket.ws_connect(path) as client:
                await client.send_bytes(b"typed")
                assert host.job is not None
                assert await asyncio.get_running_loop().sock_recv(host.job, 10) == b"typed"
                host.job.sendall(b"shown")
                assert await client.receive_bytes() == b"shown"
                host.job.close()
                assert (await client.receive()).type is aiohttp.WSMsgType.CLOSE
        else:
            status, body = await shared.get(uid, path)
            assert (status, body["detail"]) == (
                403,
                f"Job {job} belongs to {ANN}; only {ANN} and admins may work in it.",
            )
        status, body = await shared.get(uid, f"/api/v1/jobs/{job}/notebook")
        assert (status == 403) is not may
        assert "s3cret" not in str(body), "it is no notebook"
    assert host.asked == [("node2", job, 1, "terminal")] * 2


async def test_the_token_of_a_notebook_is_given_to_who_may_enter_it(shared: Shared) -> None:
    job = await shared.submit(ANN, interactive="notebook", env={"JUPYTER_TOKEN": "s3cret"})
    await run(shared.endpoint, job)
    assert await shared.get(ANN, f"/api/v1/jobs/{job}/notebook") == (200, {"token": "s3cret"})
    assert (await shared.get(OLA, f"/api/v1/jobs/{job}/notebook"))[0] == 403


async def test_the_cookie_of_the_page_is_not_enough(endpoint: Endpoint) -> None:
    _, body = await endpoint.post("/api/v1/jobs", submission(interactive="terminal"))
    await run(endpoint, body["id"])
    cookie = {"Cookie": f"{cookie_name(TOKEN)}={cookie_value(TOKEN)}"}
    for name in ("channels/terminal", "notebook"):
        async with endpoint.tcp.get(f"/api/v1/jobs/{body['id']}/{name}", headers=cookie) as answer:
            assert (answer.status, (await answer.json())["detail"]) == (403, "The page's cookie may only read.")
    async with endpoint.tcp.ws_connect(f"/api/v1/jobs/{body['id']}/channels/terminal", headers=endpoint.bearer):
        pass


async def test_a_page_works_in_a_job_with_a_ticket_that_takes_a_token(endpoint: Endpoint) -> None:
    _, body = await endpoint.post("/api/v1/jobs", submission(interactive="terminal"))
    _, other = await endpoint.post("/api/v1/jobs", submission(interactive="terminal"))
    await run(endpoint, body["id"])
    await run(endpoint, other["id"])
    cookie = {"Cookie": f"{cookie_name(TOKEN)}={cookie_value(TOKEN)}"}
    path, channel = f"/api/v1/jobs/{body['id']}/ticket", f"/api/v1/jobs/{body['id']}/channels/terminal"
    async with endpoint.tcp.post(path, headers={**cookie, "X-Gpuq-Page-Key": page_key(TOKEN)}) as answer:
        assert answer.status == 403, "neither the cookie nor the page's key gives one"
    async with endpoint.tcp.post(path, headers=endpoint.bearer) as answer:
        ticket = (await answer.json())["ticket"]
    async with endpoint.tcp.ws_connect(channel, headers=cookie, protocols=("gpuq", f"ticket.{ticket}")) as client:
        assert client.protocol == "gpuq", "the ticket is not repeated"
    for wrong, where in (("1-2", channel), (ticket, f"/api/v1/jobs/{other['id']}/channels/terminal")):
        offered = {**cookie, "Sec-WebSocket-Protocol": f"gpuq, ticket.{wrong}"}
        async with endpoint.tcp.get(where, headers=offered) as answer:
            assert (answer.status, (await answer.json())["detail"]) == (403, "The page's cookie may only read.")
    async with endpoint.tcp.get(channel, headers={"Sec-WebSocket-Protocol": f"gpuq, ticket.{ticket}"}) as answer:
        assert answer.status == 401, "a ticket alone says nothing"


async def test_only_the_owner_gets_a_ticket_and_the_page_for_it(shared: Shared) -> None:
    job = await shared.submit(ANN, interactive="terminal")
    await run(shared.endpoint, job)
    for uid, status in ((ANN, 200), (BOB, 403), (OLA, 403), (ADA, 403)):
        shared.uid = uid
        async with shared.endpoint.socket.get(f"/jobs/{job}/terminal") as answer:
            assert answer.status == status
        assert (await shared.endpoint.post(f"/api/v1/jobs/{job}/ticket"))[0] == status


@pytest.mark.parametrize(
    ("fields", "changes", "name", "status", "sentence"),
    [
        ({}, {}, "terminal", 409, "is a batch job"),
        ({"interactive": "terminal"}, {"ended_at": 2.0}, "terminal", 409, "does not run yet"),
        ({"interactive": "terminal"}, {}, "kitchen", 404, "has no channel `kitchen`"),
        ({"interactive": "terminal"}, {}, "terminal", 400, "is for WebSockets"),
    ],
)
async def test_what_is_refused(
    endpoint: Endpoint, fields: Any, changes: Any, name: str, status: int, sentence: str
) -> None:
    _, body = await endpoint.post("/api/v1/jobs", submission(**fields))
    await run(endpoint, body["id"], **changes)
    found, answer = await endpoint.get(f"/api/v1/jobs/{body['id']}/channels/{name}")
    assert (found, sentence in answer["detail"]) == (status, True), answer


async def test_an_interactive_job_gets_the_sites_time_limit(endpoint: Endpoint) -> None:
    endpoint.context.settings = replace(
        endpoint.settings, api=replace(endpoint.settings.api, interactive_time_limit_s=600.0)
    )
    for fields, limit in (
        ({"interactive": "terminal"}, 600),
        ({"interactive": "terminal", "time_limit_s": 60}, 60),
        ({}, None),
    ):
        _, body = await endpoint.post("/api/v1/jobs", submission(**fields))
        assert (await endpoint.get(f"/api/v1/jobs/{body['id']}"))[1]["time_limit_s"] == limit
    status, body = await endpoint.post("/api/v1/jobs", submission(interactive="terminal", hosts=2, gpus=2))
    assert (status, "runs on one host" in body["detail"]) == (409, True)


async def test_the_end_of_the_endpoint_says_that_it_comes_back(endpoint: Endpoint) -> None:
    _, body = await endpoint.post("/api/v1/jobs", submission(interactive="terminal"))
    await run(endpoint, body["id"])
    async with endpoint.socket.ws_connect(f"/api/v1/jobs/{body['id']}/channels/terminal") as client:
        endpoint.context.stopping.set()
        message = await client.receive()
    assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, 1001)


async def test_a_user_does_not_take_all_connections_to_the_jobs_of_a_host(shared: Shared) -> None:
    """A host has a number for all users. Those that ended do not count."""
    ann, bob = [await shared.submit(one, interactive="terminal") for one in (ANN, BOB)]
    await run(shared.endpoint, ann)
    host, path = await run(shared.endpoint, bob), f"/api/v1/jobs/{ann}/channels/terminal"
    opened, mine = shared.endpoint.context.open_requests, ("connections to jobs", str(ANN))
    opened[mine] = limits.MOST_OF_JOBS
    for refused in (path, f"/api/v1/jobs/{ann}/files"):
        status, problem = await shared.get(ANN, refused)
        assert (status, problem["detail"]) == (
            429,
            "At most 64 connections to jobs of yours are open at the same time.",
        )
    assert not host.asked
    shared.uid, opened[mine] = ANN, limits.MOST_OF_JOBS - 1
    async with shared.endpoint.socket.ws_connect(path):
        assert opened[mine] == limits.MOST_OF_JOBS
        assert host.job is not None
        host.job.close()
    await until(lambda: opened[mine] == limits.MOST_OF_JOBS - 1, story=lambda: "the end of the connection")
    shared.uid = BOB
    opened[mine] = limits.MOST_OF_JOBS
    async with shared.endpoint.socket.ws_connect(f"/api/v1/jobs/{bob}/channels/terminal"):
        host.job.close()
