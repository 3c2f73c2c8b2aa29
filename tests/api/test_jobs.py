"""What the JSON says about jobs, devices and the queue."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

import pytest

from gpuq.api.contract.schema_jobs import ForecastView
from gpuq.api.handlers import jobs
from gpuq.core.state.attempt import StopReason
from gpuq.core.state.job import JobId, JobState
from gpuq.errors import Unreachable
from tests.api.conftest import Endpoint
from tests.api.support import (
    GIB,
    afternoon,
    attempt,
    forecast,
    live_device,
    live_resident,
    picture,
    record,
    row,
    submission,
)

SHOW = {"id", "name", "state", "kind", "command", "attempts", "device", "devices", "host", "exit_code", "log_path"}
SHOW |= {"forecast", "verdict", "actual"}
ACTUAL = {
    "peak_utilization_pct", "peak_memory_bytes", "peak_memory_is_bound", "alone_rate", "shared_rate", "slowdown",
    "slowdown_basis", "slowdown_otherwise", "blink", "energy_joules", "idle_joules", "partners", "not_counted", "memory_cause",
    "foreign_load", "held_back", "utilization_is_bound", "disturbed_rate", "step_processes",
}  # fmt: skip
MEMORY = {"total_memory_bytes", "used_memory_bytes", "promised_memory_bytes"}
DEVICE = {"id", "host", "kind", "sharing", "utilization_pct"} | MEMORY


async def show(endpoint: Endpoint, job: int) -> dict[str, Any]:
    status, body = await endpoint.get(f"/api/v1/jobs/{job}")
    assert status == 200
    return dict(body)


async def test_a_running_job_that_shares(busy: Endpoint) -> None:
    job = await show(busy, 42)
    assert set(job) >= SHOW
    assert (job["state"], job["host"], job["exit_code"]) == ("RUNNING", "rack-3", None)
    assert job["device"] == job["devices"][0]
    assert job["device"].startswith("GPU-")
    assert (job["device_name"], job["device_names"]) == ("gpu0", ["gpu0"])
    assert job["partners"] == [43]
    assert job["live"]["rate"] == 11.8
    assert set(job["forecast"]) == set(ForecastView.__struct_fields__)
    assert job["forecast"]["peak_memory_bytes"] == int(28.5 * GIB)
    assert job["verdict"]["rule"] == "Fits"
    assert job["verdict"]["numbers"] == {"load_sum_pct": 88.0}
    assert job["log_path"].endswith("42-1/output.log")
    assert datetime.fromisoformat(job["started_at"]).timestamp() == pytest.approx(job["started_at_unix"], abs=0.001)
    assert set(job["actual"]) >= ACTUAL
    assert job["attempts"][0]["promised_memory_bytes"] == [job["forecast"]["upper_memory_bytes"]]


async def test_an_ended_job_with_what_really_happened(busy: Endpoint) -> None:
    job = await show(busy, 38)
    assert (job["state"], job["exit_code"]) == ("COMPLETED", 0)
    assert job["actual"]["slowdown"] == 1.07
    assert job["actual"]["alone_rate"] is None
    assert job["ended_at"] is not None
    assert job["live"] is None


async def test_a_job_before_its_first_pass_has_nulls(endpoint: Endpoint) -> None:
    await endpoint.post("/api/v1/jobs", submission(env={"SECRET": "canary"}))
    endpoint.context.models.forecasts = lambda records: {}  # type: ignore[union-attr, method-assign]
    job = await show(endpoint, 1)
    assert set(job) >= SHOW
    for key in ("name", "device", "host", "exit_code", "log_path", "forecast", "verdict", "started_at", "position"):
        assert job[key] is None, key
    assert job["attempts"] == job["devices"] == []
    assert set(job["actual"]) >= ACTUAL
    lists = {"partners", "partner_kinds", "slowdowns", "slowdown_otherwise"}
    assert job["actual"] == {name: [] if name in lists else None for name in job["actual"]}
    assert job["environment"] == ["SECRET"]
    assert job["umask"] is None
    assert "canary" not in str(job)


async def test_a_waiting_job_has_its_position_and_current_forecast(busy: Endpoint) -> None:
    job = await show(busy, 49)
    assert job["position"] == 2
    assert job["forecast"]["peak_utilization_pct"] == 61.0
    assert job["reason"] == "SlowdownBudget"
    busy.stream.down = True
    assert (await show(busy, 49))["position"] is None


async def test_a_requeued_job_has_no_place_but_keeps_its_history(busy: Endpoint) -> None:
    busy.store.set_state(40, JobState.PENDING)
    job = await show(busy, 40)
    assert job["device"] is None
    assert job["exit_code"] is None
    assert job["attempts"][0]["exit_code"] == 137


async def test_a_stale_or_broken_view_gives_nulls_never_zeros(busy: Endpoint) -> None:
    old = live_device("GPU-x", 141, 50.0, live_resident(42, 1, 1, 1.0))
    for broken in (picture(time.time() - 60, old), b"{", b"\xff", b'{"at": "x"}', None):
        busy.stream.picture = broken
        busy.context.live._last = None
        assert (await show(busy, 42))["live"] is None
        _, devices = await busy.get("/api/v1/gpus")
        assert [device["used_memory_bytes"] for device in devices] == [None] * 4
        assert [device["utilization_pct"] for device in devices] == [None] * 4


async def test_explanation_of_a_waiting_job(busy: Endpoint) -> None:
    status, reply = await busy.get("/api/v1/jobs/51/explanation")
    assert status == 200
    assert reply["sentence"] == (
        "Together, the predicted peak utilisations exceed the limit: sum 131%, limit 100%, beside #44."
    )
    assert reply["verdict"]["numbers"]["sum_pct"] == 131.0
    assert (reply["position"], reply["waiting"]) == (1, 4)


async def test_explanation_of_a_running_job_names_its_partners(busy: Endpoint) -> None:
    _, reply = await busy.get("/api/v1/jobs/43/explanation")
    assert reply["partners"] == [42]
    assert reply["sentence"].startswith("It runs. It fits beside")


async def test_lists_filter_and_page(busy: Endpoint) -> None:
    async def ids(query: str) -> list[int]:
        status, page = await busy.get(f"/api/v1/jobs?{query}")
        assert status == 200
        return [job["id"] for job in page["jobs"]]

    assert await ids("state=RUNNING") == [48, 47, 44, 43, 42]
    assert await ids("state=held,RUNNING&order=oldest&limit=2") == [42, 43]
    assert await ids("state=ended&order=oldest") == [37, 38, 39, 40, 41]
    assert await ids("ids=41,37,99999") == [41, 37]
    assert await ids("owner=absent") == []
    assert await ids("owner=ada&state=waiting") == [53, 52, 51, 50, 49]
    seen, after = [], ""
    while True:
        _, page = await busy.get(f"/api/v1/jobs?limit=4{after}")
        seen += [job["id"] for job in page["jobs"]]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert seen == sorted(busy.store.job_rows, reverse=True)


async def test_lists_are_filtered_by_name_kind_and_project(endpoint: Endpoint) -> None:
    array = {"tasks": "5-7", "params": {"lr": ["1", "2", "3"]}}
    bodies = [submission(name="run-1", project="vision"), submission(name="other", command=["./a"], project="text")]
    for body in [*bodies, submission(command=["t", "{lr}"], name="run-{lr}", array=array)]:
        assert (await endpoint.post("/api/v1/jobs", body))[0] == 201

    async def ids(query: str) -> list[int]:
        _, page = await endpoint.get(f"/api/v1/jobs?order=oldest&{query}")
        return [one["id"] for one in (*page["jobs"], *page["arrays"])]

    assert await ids("name=run-1") == [1, 3]
    assert await ids("name=run-*&limit=1&after=3") == [4]
    assert await ids("name=run-2&tasks=together") == await ids("name=run-%7Blr%7D&tasks=together") == [3]
    assert await ids("name=run-*&tasks=together") == [1, 3]
    assert await ids("kind=*./a*") == [2]
    assert await ids("project=vis*") == [1]
    assert await ids("name=none&kind=*&tasks=together") == []


async def test_a_filter_with_a_typing_error_selects_nothing(endpoint: Endpoint) -> None:
    await endpoint.post("/api/v1/jobs", submission())
    status, answer = await endpoint.get("/api/v1/jobs?states=FAILED")
    assert (status, answer["detail"]) == (422, "There is no parameter 'states' here. Did you mean `state`?")
    assert "owner" in answer["hint"]
    assert (await endpoint.get("/api/v1/jobs/1/logs?tail=5"))[0] == 422
    async with endpoint.socket.get("/queue?from=a-mail") as page:
        assert page.status == 200


async def test_owner_me_is_the_caller(endpoint: Endpoint) -> None:
    await endpoint.post("/api/v1/jobs", submission())
    endpoint.store.job_rows[2] = row(2, record(time.time()), JobState.PENDING)
    _, page = await endpoint.get("/api/v1/jobs?owner=me")
    assert [job["id"] for job in page["jobs"]] == [1]


async def test_a_list_shows_exit_codes_of_ended_jobs(busy: Endpoint) -> None:
    _, page = await busy.get("/api/v1/jobs?ids=40")
    assert page["jobs"][0]["exit_code"] == 137


async def test_devices_with_residents_and_forecasts(busy: Endpoint) -> None:
    status, devices = await busy.get("/api/v1/gpus")
    assert status == 200
    assert len(devices) == 4
    assert set(devices[0]) >= DEVICE | {"residents"}
    assert [resident["job"] for resident in devices[0]["residents"]] == [42, 43]
    assert devices[0]["residents"][0]["name"] == "resnet50-imagenet"
    assert devices[0]["residents"][0]["forecast"]["peak_utilization_pct"] == 61
    assert devices[0]["kind"] == "NVIDIA H200"
    assert devices[3]["residents"] == []
    chosen = f"ids={devices[2]['id']},{devices[0]['id']},GPU-elsewhere"
    assert await busy.get(f"/api/v1/gpus?{chosen}") == (200, [devices[0], devices[2]])


async def test_an_unreported_device_still_lists_its_attempts(busy: Endpoint) -> None:
    busy.stream.down = True
    _, devices = await busy.get("/api/v1/gpus")
    assert devices[0]["promised_memory_bytes"] is None
    assert [resident["job"] for resident in devices[0]["residents"]] == [42, 43]
    assert await busy.get(f"/api/v1/gpus?ids={devices[0]['id']}") == (200, devices[:1])


async def test_the_queue_in_the_dispatchers_order_else_in_the_records(busy: Endpoint) -> None:
    assert await busy.get("/api/v1/queue") == (200, {"waiting": [51, 49, 50, 53], "source": "redis"})
    busy.stream.down = True
    assert await busy.get("/api/v1/queue") == (200, {"waiting": [49, 50, 51, 53], "source": "record"})


async def test_an_absent_database_is_503(busy: Endpoint) -> None:
    busy.store.refuse = Unreachable("The database does not answer.", fix="Start it.")
    for path in ("/api/v1/jobs", "/api/v1/jobs/42", "/api/v1/queue", "/metrics", "/"):
        busy.stream.order = []
        async with busy.socket.get(path) as answer:
            reply = await answer.json(content_type=None)
            assert (answer.status, reply["exit_code"], reply["hint"]) == (503, 4, "Start it."), path


async def test_a_list_has_the_forecast_of_jobs_that_wait(endpoint: Endpoint) -> None:
    afternoon(endpoint.store, endpoint.stream)
    _, body = await endpoint.get("/api/v1/jobs", params={"state": "waiting"})
    assert {job["forecast"]["peak_utilization_pct"] for job in body["jobs"]} == {61.0}
    _, body = await endpoint.get("/api/v1/jobs", params={"ids": "44"})
    assert body["jobs"][0]["forecast"]["peak_utilization_pct"] == 96.0, (
        "what runs has the forecast it was admitted with"
    )


async def test_a_bound_beyond_the_device_is_not_shown(busy: Endpoint) -> None:
    """`MEM/PRED 48.8/1096G` stood beside a device of 79 GiB."""
    [attempt] = busy.store.attempts(JobId(44))
    attempt.launch["attempt"]["forecast"]["upper_memory_bytes"] = 1096 * GIB
    job = await show(busy, 44)
    assert job["forecast"]["upper_memory_bytes"] == job["attempts"][0]["forecast"]["upper_memory_bytes"] == 141 * GIB
    _, devices = await busy.get("/api/v1/gpus")
    there = {one["job"]: one for device in devices for one in device["residents"]}
    assert there[44]["forecast"]["upper_memory_bytes"] == 141 * GIB
    attempt.launch["attempt"]["forecast"]["peak_memory_bytes"] = 160 * GIB
    assert (await show(busy, 44))["forecast"]["upper_memory_bytes"] == 160 * GIB, "that it will not fit is not hidden"


async def test_lists_have_positions_and_live_slowdowns(busy: Endpoint) -> None:
    live = {**live_resident(42, 27.1, 56, 11.8, 43), "slowdown": 1.36, "slowdown_basis": "within attempt"}
    expected = {**live_resident(43, 19.4, 28, 4.2, 42), "expected_slowdown": 1.06}
    busy.stream.picture = picture(time.time(), live_device("GPU-0", 141, 84.0, live, expected))
    _, reply = await busy.get("/api/v1/jobs?state=waiting,active")
    jobs = {job["id"]: job for job in reply["jobs"]}
    assert [jobs[job]["position"] for job in (51, 49, 50, 53, 52, 42)] == [1, 2, 3, 4, None, None]
    assert (jobs[42]["live"]["slowdown"], jobs[43]["live"]["expected_slowdown"]) == (1.36, 1.06)


async def test_a_job_over_two_hosts_is_shown_with_both_and_with_the_end_that_explains_it(endpoint: Endpoint) -> None:
    now = time.time()
    made = record(now - 100, gpus=2, hosts=2)
    ends = {"started_at": now - 60, "ended_at": now}
    endpoint.store.job_rows[JobId(90)] = row(90, made, JobState.FAILED, attempt=3)
    endpoint.store.set_attempts(
        attempt(
            90,
            "a/0",
            now - 99,
            forecast(50.0, 4.0),
            number=1,
            host="a",
            ending="never started",
            started_at=None,
            ended_at=now - 80,
        ),
        attempt(
            90,
            "b/0",
            now - 99,
            forecast(50.0, 4.0),
            number=2,
            host="b",
            ending="never started",
            started_at=None,
            ended_at=now - 80,
        ),
        attempt(
            90,
            "a/0",
            now - 70,
            forecast(50.0, 4.0),
            number=3,
            host="a",
            ending="stopped",
            stop_reason=StopReason.GANG,
            **ends,
        ),
        attempt(
            90,
            "b/0",
            now - 70,
            forecast(50.0, 4.0),
            number=4,
            host="b",
            ending="exited",
            exit_code=3,
            reason="boom",
            **ends,
        ),
    )
    shown = await show(endpoint, 90)
    (listed,) = (await endpoint.get("/api/v1/jobs?ids=90"))[1]["jobs"]
    for found in (shown, listed):
        assert (found["attempt"], found["host"], found["hosts"], found["devices"]) == (
            3,
            "a",
            ["a", "b"],
            ["a/0", "b/0"],
        )
        assert (found["exit_code"], found["reason"]) == (3, "boom")
    assert [one["number"] for one in shown["attempts"]] == [1, 2, 3, 4]
    assert (shown["gpus"], shown["wanted_hosts"]) == (2, 2)


async def test_an_array_stands_in_a_list_in_place_of_its_tasks(endpoint: Endpoint) -> None:
    array = {"tasks": "5-7", "at_once": 2, "params": {"lr": ["1", "2", "3"]}}
    for body in (submission(name="a"), submission(command=["t", "{lr}"], name="b", array=array), submission(name="c")):
        assert (await endpoint.post("/api/v1/jobs", body))[0] == 201
    endpoint.store.set_state(3, JobState.RUNNING)

    _, page = await endpoint.get("/api/v1/jobs?tasks=together&state=waiting&limit=2")
    assert ([one["id"] for one in page["jobs"]], [one["id"] for one in page["arrays"]], page["next"]) == ([5], [2], 2)
    found = page["arrays"][0]
    assert (found["tasks"], found["count"], found["at_once"], found["params"]) == ("5-7", 3, 2, ["lr"])
    assert (found["states"], found["first"]) == ({"PENDING": 2, "RUNNING": 1}, {"PENDING": 5, "RUNNING": 6})
    _, rest = await endpoint.get("/api/v1/jobs?tasks=together&limit=2&after=2")
    assert [one["id"] for one in rest["jobs"]] == [1]

    _, tasks = await endpoint.get("/api/v1/jobs?array=2&order=oldest")
    assert [(one["array"], one["task"], one["params"]) for one in tasks["jobs"]][1] == (2, 6, {"lr": "2"})
    _, arrays = await endpoint.get("/api/v1/arrays?ids=1,2,3")
    assert [one["id"] for one in arrays["arrays"]] == [2]

    endpoint.stream.picture = picture(time.time())
    for task in (2, 4):
        endpoint.store.set_state(task, JobState.RUNNING)
    _, arrays = await endpoint.get("/api/v1/arrays?ids=2")
    assert arrays["arrays"][0]["expected_start"] is None, "none of its tasks waits"


@pytest.mark.parametrize("order", ["oldest", "newest"])
@pytest.mark.parametrize("tasks", ["each", "together"])
async def test_a_page_of_large_jobs_ends_early_and_the_next_goes_on(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, order: str, tasks: str
) -> None:
    """However many are asked for: the large jobs of one user do not keep the others from a list."""
    monkeypatch.setattr(jobs, "MOST_READ", 150)
    monkeypatch.setattr(jobs, "_AT_ONCE", 3)
    monkeypatch.setattr(jobs, "_ARRAYS_AT_ONCE", 1)
    address = f"/api/v1/jobs?order={order}&tasks={tasks}&limit=1000"
    for number in range(6):
        large = {"array": {"tasks": "0-1", "params": {"x": ["y" * 100] * 2}}}
        assert (await endpoint.post("/api/v1/jobs", [submission(command=["true", "x" * 100])] * 2))[0] == 201
        assert (await endpoint.post("/api/v1/jobs", submission(**(large if number % 2 else {}))))[0] == 201
    found: list[int] = []
    after, pages = "", 0
    while True:
        _, page = await endpoint.get(f"{address}{after}")
        found += [one["id"] for one in (*page["jobs"], *page["arrays"])]
        pages += 1
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    monkeypatch.undo()
    _, whole = await endpoint.get(address)
    assert sorted(found) == sorted(one["id"] for one in (*whole["jobs"], *whole["arrays"]))
    assert (pages > 3, whole["next"]) == (True, None)


async def test_a_list_goes_on_where_a_job_goes_to_another_state_meanwhile(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    await endpoint.post("/api/v1/jobs", [submission()] * 4)
    first_ids = endpoint.store.job_ids

    def ids_before_a_start(**conditions: Any) -> list[JobId]:
        found = first_ids(**conditions)
        endpoint.store.set_state(1, JobState.RUNNING)
        return found

    monkeypatch.setattr(endpoint.store, "job_ids", ids_before_a_start)
    _, page = await endpoint.get("/api/v1/jobs?state=PENDING&limit=2&order=oldest")
    assert ([one["id"] for one in page["jobs"]], page["next"]) == ([2], 2)
