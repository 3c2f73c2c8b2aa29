"""Whose expected start an edit would move: the queue is replayed without it and with it."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from gpuq.core.state.job import JobId, JobState
from tests.api.conftest import Endpoint
from tests.api.support import afternoon, attempt, forecast, record, row

PATH = "/api/v1/jobs/edit/preview"


async def changes(endpoint: Endpoint, ids: list[int], **edit: Any) -> dict[int, tuple[float, float]]:
    status, answer = await endpoint.post(PATH, {"where": {"ids": ids}, "edit": edit})
    assert status == 200, answer
    return {one["id"]: (one["before_s"], one["after_s"]) for one in answer["changes"]}


async def test_who_is_put_first_starts_earlier_and_those_behind_later(endpoint: Endpoint) -> None:
    afternoon(endpoint.store, endpoint.stream)
    found = await changes(endpoint, [53], priority=1)
    before, after = found.pop(53)
    assert after < before
    assert found
    assert all(after > before for before, after in found.values())
    assert endpoint.store.job_rows[JobId(53)].record.submission.priority == 0, "nothing is changed"
    assert endpoint.store.requests(9) == []


async def test_an_edit_that_moves_no_start_gives_an_empty_list(endpoint: Endpoint) -> None:
    afternoon(endpoint.store, endpoint.stream)
    assert await changes(endpoint, [53], priority=-1) == await changes(endpoint, [53], name="x") == {}


async def test_a_preview_of_what_makes_no_sense_is_refused(endpoint: Endpoint) -> None:
    afternoon(endpoint.store, endpoint.stream)
    status, problem = await endpoint.post(PATH, {"where": {"ids": [53]}, "edit": {"priority": 4000}})
    assert (status, "priority" in problem["detail"]) == (422, True), problem


async def test_an_attempt_on_a_device_that_is_not_there_any_more_is_left_out(endpoint: Endpoint) -> None:
    """As of a host that was forgotten: such an attempt made of every preview an error."""
    afternoon(endpoint.store, endpoint.stream)
    endpoint.store.job_rows[JobId(60)] = row(60, record(time.time()), JobState.RUNNING, attempt=1)
    endpoint.store.set_attempts(attempt(60, "gone", time.time(), forecast(50, 5)))
    assert (await changes(endpoint, [53], priority=1)).keys() > {53}


async def test_no_start_is_expected_on_a_host_that_can_start_none(endpoint: Endpoint) -> None:
    afternoon(endpoint.store, endpoint.stream)
    assert endpoint.stream.picture is not None
    why = {"why": "it cannot reach the record", "since_at": time.time(), "again_at": None}
    view = msgspec.json.decode(endpoint.stream.picture)
    for device in view["devices"]:
        device["no_starts"] = why
    endpoint.stream.picture = msgspec.json.encode(view)
    assert await changes(endpoint, [53], priority=1) == {}
