"""New values for what jobs ask for: all of the jobs or none, with what takes it back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from gpuq.adapters.store.row_types import Commit
from gpuq.core.state.device import Device, DeviceId, HostId
from gpuq.core.state.edit import JobEdit
from gpuq.core.state.job import JobId, JobState
from gpuq.messages.codec import decoded
from tests.api.conftest import Endpoint
from tests.api.support import GIB, attempt, forecast, submission


def handle_at_once(endpoint: Endpoint, started_before: JobId | None = None) -> None:
    """Carry requests out as a dispatcher would; this job has started by then."""

    def add_requests(verb: str, jobs: Sequence[JobId], by: str, at: float, body: Mapping[str, Any]) -> None:
        assert verb == "edit"
        if started_before is not None:
            endpoint.store.set_state(started_before, JobState.RUNNING)
        edit = decoded(body["edit"], JobEdit)
        endpoint.store.commit(Commit(edited=[(job, edit) for job in jobs if job != started_before]))

    endpoint.store.add_requests = add_requests  # type: ignore[method-assign]


async def submitted(endpoint: Endpoint, **fields: Any) -> int:
    status, body = await endpoint.post("/api/v1/jobs", submission(**fields))
    assert status == 201
    return int(body["id"])


async def edit(endpoint: Endpoint, ids: list[Any], dry_run: bool = False, **new: Any) -> tuple[int, Any]:
    body = {"where": {"ids": ids}, "edit": new, "dry_run": dry_run}
    return await endpoint.post("/api/v1/jobs/edit", body)


async def test_an_edit_is_shown_and_taken_back_by_its_undo(endpoint: Endpoint) -> None:
    handle_at_once(endpoint)
    first, second = await submitted(endpoint, name="a", time_limit_s=60), await submitted(endpoint, name="b")
    status, answer = await edit(endpoint, [[first, second]], priority=5, time_limit_s=3600)
    assert (status, answer["jobs"], answer["done"]) == (200, {"PENDING": [first, second]}, True)
    _, job = await endpoint.get(f"/api/v1/jobs/{second}")
    assert (job["priority"], job["time_limit_s"], job["name"]) == (5, 3600, "b")
    assert [one["edit"] for one in answer["undo"]] == [
        {"priority": 0, "time_limit_s": 60.0},
        {"priority": 0, "time_limit_s": None},
    ]
    for back in answer["undo"]:
        assert (await endpoint.post("/api/v1/jobs/edit", back))[0] == 200
    _, job = await endpoint.get(f"/api/v1/jobs/{first}")
    assert (job["priority"], job["time_limit_s"]) == (0, 60)


async def test_one_job_that_cannot_be_changed_keeps_all_from_it(endpoint: Endpoint) -> None:
    waiting, running, ended = [await submitted(endpoint) for _ in range(3)]
    endpoint.store.set_state(running, JobState.RUNNING, attempt=1)
    endpoint.store.set_state(ended, JobState.FAILED)
    launched = attempt(running, "gpu0", 1.0, forecast(50.0, 4.0))
    launched.launch["attempt"]["time_limit_s"] = 600.0
    endpoint.store.set_attempts(launched)
    before = len(endpoint.store.requests(99))
    status, problem = await edit(endpoint, [waiting, running, ended], priority=5)
    assert (status, problem["exit_code"]) == (409, 6)
    assert problem["detail"].startswith(
        f"Job {running} runs: priority cannot be changed any more. Nothing was changed. 1 more"
    )
    status, problem = await edit(endpoint, [running], time_limit_s=900)
    assert (status, problem["detail"]) == (
        409,
        f"Job {running} runs with a time limit of 600 s, which can be made shorter, not longer. Nothing was changed.",
    )
    status, problem = await edit(endpoint, [waiting, 4711], priority=5)
    assert (status, problem["exit_code"]) == (404, 3)
    assert len(endpoint.store.requests(99)) == before
    status, answer = await edit(endpoint, [waiting, running, 4711], dry_run=True, priority=5)
    assert (status, answer["jobs"], answer["missing"]) == (200, {"PENDING": [waiting]}, [[4711, 4711]])
    assert [one["ids"] for one in answer["refused"]] == [[running]]


async def test_a_need_that_no_device_has_is_refused(endpoint: Endpoint) -> None:
    endpoint.store.set_devices(Device(DeviceId("gpu0"), HostId("host"), "sim", "A", 24 * GIB))
    job = await submitted(endpoint)
    status, problem = await edit(endpoint, [job], gpu_memory=100 * GIB)
    assert (status, problem["exit_code"]) == (409, 7)
    assert len(endpoint.store.requests(99)) == 1


async def test_a_job_that_starts_in_the_very_moment_is_named(endpoint: Endpoint) -> None:
    first, second = await submitted(endpoint), await submitted(endpoint)
    handle_at_once(endpoint, started_before=JobId(first))
    status, answer = await edit(endpoint, [first, second], priority=5)
    assert (status, answer["unchanged"]) == (200, [first])


@pytest.mark.parametrize("new", [{}, {"priority": None}, {"priority": 1001}, {"gpus": 2}, {"max_slowdown": 0.5}])
async def test_values_that_make_no_sense_are_refused(endpoint: Endpoint, new: dict[str, Any]) -> None:
    job = await submitted(endpoint)
    assert (await edit(endpoint, [job], **new))[0] in {400, 422}
    assert len(endpoint.store.requests(99)) == 1
