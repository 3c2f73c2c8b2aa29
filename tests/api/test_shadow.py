"""What sharing would have done, over HTTP."""

from __future__ import annotations

import time

from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.job import JobId, JobState
from tests.api.conftest import Endpoint
from tests.api.support import record, row
from tests.api.test_missed_savings import HOUR, a_chance, ended


async def test_a_week_of_shadow_mode(endpoint: Endpoint) -> None:
    now = time.time()
    store = endpoint.store
    for job, start in ((1, now - 4 * HOUR), (2, now - 3 * HOUR)):
        store.job_rows[job], attempt = ended(job, start, start + HOUR)
        store.set_attempts(attempt)
    store.job_rows[3] = row(3, record(now), JobState.CANCELLED)
    store.job_rows[4] = row(4, record(now), JobState.PENDING)
    store.set_chances(*(a_chance(job, at=now - 4 * HOUR) for job in (2, 3, 4)))

    status, reply = await endpoint.get("/api/v1/report/shadow")

    assert status == 200
    assert (reply["on"], reply["days"]) == (False, 7)
    assert (reply["chances"], reply["counted"], reply["never_ran"], reply["open"]) == (3, 1, 1, 1)
    assert round(reply["gpu_hours_saved"], 3) == 0.8
    assert round(reply["gpu_hours_run"], 3) == 2
    assert reply["pairs"][0]["times"] == 1


async def test_days_go_back_as_far_as_asked(endpoint: Endpoint) -> None:
    endpoint.store.job_rows[1], attempt = ended(1, 0.0, HOUR)
    endpoint.store.set_attempts(attempt)
    endpoint.store.set_chances(a_chance(1, at=time.time() - 10 * 86_400))
    assert (await endpoint.get("/api/v1/report/shadow"))[1]["chances"] == 0
    assert (await endpoint.get("/api/v1/report/shadow?days=11"))[1]["chances"] == 1
    assert endpoint.store.chances()[0].beside == AttemptId(JobId(1), 1)
    for wrong in ("0", "many", "99999"):
        status, problem = await endpoint.get(f"/api/v1/report/shadow?days={wrong}")
        assert (status, "days" in problem["detail"]) == (422, True)
