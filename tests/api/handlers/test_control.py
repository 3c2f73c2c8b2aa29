"""Requests to cancel, hold and release one job or many."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gpuq.core.state.job import JobState
from tests.api.conftest import Endpoint


@pytest.mark.parametrize(
    ("verb", "job", "status"),
    [
        ("cancel", 42, 202),
        ("cancel", 49, 202),
        ("cancel", 52, 202),
        ("cancel", 38, 409),
        ("hold", 49, 202),
        ("hold", 52, 409),
        ("hold", 42, 409),
        ("hold", 38, 409),
        ("release", 52, 202),
        ("release", 49, 409),
        ("release", 42, 409),
    ],
)
async def test_cancel_hold_and_release_of_one_job(busy: Endpoint, verb: str, job: int, status: int) -> None:
    found, body = await busy.post(f"/api/v1/jobs/{job}/{verb}?wait=0")
    assert found == status
    if status == 202:
        assert (body["asked"], body["done"]) == (verb, False)
        assert [(one.verb, one.job) for one in busy.store.requests(100)] == [(verb, job)]
        async with asyncio.timeout(60):
            while not busy.stream.messages:
                await asyncio.sleep(0.005)
    else:
        assert body["exit_code"] == 6
        assert f"Job {job}" in body["detail"]
        assert busy.store.requests(100) == []


async def test_the_answer_waits_until_the_request_is_carried_out(busy: Endpoint) -> None:
    asking = asyncio.create_task(busy.post("/api/v1/jobs/49/hold?wait=10"))
    async with asyncio.timeout(60):
        while not busy.store.requests(100):
            await asyncio.sleep(0.005)
    busy.store.set_state(49, JobState.HELD)
    assert await asking == (200, {"id": 49, "asked": "hold", "state": "HELD", "done": True})


async def many(endpoint: Endpoint, verb: str, wait: int = 0, **body: object) -> tuple[int, dict[str, Any]]:
    return await endpoint.post(f"/api/v1/jobs/{verb}?wait={wait}", body)


async def test_one_request_cancels_all_that_meet_the_conditions(busy: Endpoint) -> None:
    status, reply = await many(busy, "cancel", where={"ids": [[36, 43], 51, 99, [200, 10**17]]})
    assert status == 202
    assert reply["jobs"] == reply["now"] == {"RUNNING": [42, 43], "PENDING": [51]}
    assert {one["state"]: one["ids"] for one in reply["refused"]} == {
        "COMPLETED": [37, 38, 41],
        "FAILED": [39],
        "OUT_OF_MEMORY": [40],
    }
    assert reply["refused"][0]["why"] == "has already ended: it is COMPLETED"
    assert reply["missing"] == [[36, 36], [99, 99], [200, 10**17]]
    assert [(request.verb, request.job) for request in busy.store.requests(100)] == [
        ("cancel", 42),
        ("cancel", 43),
        ("cancel", 51),
    ]


async def test_without_ids_and_states_only_possible_jobs_are_selected(busy: Endpoint) -> None:
    for verb, where, chosen in (
        ("cancel", {"name": "*-finetune", "owner": "all"}, {"RUNNING": [43]}),
        ("hold", {"owner": "all"}, {"PENDING": [49, 50, 51, 53]}),
        ("release", {"kind": "ada:*"}, {"HELD": [52]}),
        ("hold", {"owner": "another user"}, {}),
    ):
        status, reply = await many(busy, verb, where=where, dry_run=True)
        assert (status, reply["dry_run"], reply["jobs"], reply["refused"], reply["missing"]) == (
            200,
            True,
            chosen,
            [],
            [],
        )
    assert busy.store.requests(100) == []
    _, reply = await many(busy, "hold", where={"state": ["HELD"]})
    assert [(one["state"], one["ids"]) for one in reply["refused"]] == [("HELD", [52])]


async def test_the_answer_says_when_all_is_carried_out(busy: Endpoint) -> None:
    asking = asyncio.create_task(many(busy, "hold", wait=10, where={"ids": [49, 50]}))
    async with asyncio.timeout(60):
        while len(busy.store.requests(100)) < 2:
            await asyncio.sleep(0.005)
    for job in (49, 50):
        busy.store.set_state(job, JobState.HELD)
    status, reply = await asking
    assert (status, reply["jobs"], reply["now"]) == (200, {"PENDING": [49, 50]}, {"HELD": [49, 50]})


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"where": {}},
        {"where": {"nmae": "x"}},
        {"where": {"ids": []}},
        {"where": {"ids": [[1, 2, 3]]}},
        {"where": {"ids": [-1]}},
    ],
)
async def test_a_request_about_many_jobs_must_say_which(busy: Endpoint, body: dict[str, object]) -> None:
    status, reply = await busy.post("/api/v1/jobs/cancel", body)
    assert (status, reply["exit_code"]) == (422, 2)
    assert busy.store.requests(100) == []
