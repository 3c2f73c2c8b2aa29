"""Submissions: answered after the commit, grouped, rung once, refused with the reason."""

from __future__ import annotations

import asyncio
import io
import json
import os
import threading
import time
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from gpuq.api.contract import limits
from gpuq.api.handlers import submit
from gpuq.api.identity import user_name
from gpuq.core.state.device import Device
from gpuq.core.state.job import JobState
from gpuq.errors import Unreachable
from gpuq.messages.wire import WakeUp
from gpuq.settings import Settings
from tests.api.conftest import Endpoint, started
from tests.api.support import GIB, FaultyStore, MemoryStream, afternoon, live_device, picture, record, submission

JOBS = "/api/v1/jobs"


async def rung(endpoint: Endpoint, times: int) -> None:
    async with asyncio.timeout(60):
        while len(endpoint.stream.messages) < times:
            await asyncio.sleep(0.005)


async def test_one_job(endpoint: Endpoint) -> None:
    async with endpoint.socket.post(JOBS, json=submission(name="first", priority=3)) as answer:
        assert answer.status == 201
        assert answer.headers["Location"] == "/api/v1/jobs/1"
        assert await answer.json() == {"id": 1, "dispatcher": "absent"}
    kept = endpoint.store.job_rows[1].record
    assert kept.submission.name == "first"
    assert kept.kind.endswith(":python")
    assert kept.features == {"arguments": 2}
    await rung(endpoint, 1)
    assert endpoint.stream.messages == [WakeUp()]


async def test_a_held_job_waits_for_its_release(endpoint: Endpoint) -> None:
    await endpoint.post(JOBS, submission(hold=True))
    assert endpoint.store.job_rows[1].state is JobState.HELD


async def test_an_array_is_a_job_for_each_task(endpoint: Endpoint) -> None:
    array = {"tasks": "0-9:3", "params": {"lr": ["1", "2", "3", "4"]}}
    status, body = await endpoint.post(JOBS, submission(command=["t", "{lr}", "{task}"], array=array))
    assert (status, body["id"]) == (201, 1)
    commands = [row.record.submission.command for row in endpoint.store.job_rows.values()]
    assert commands == [("t", "1", "0"), ("t", "2", "3"), ("t", "3", "6"), ("t", "4", "9")]

    status, body = await endpoint.post(JOBS, [submission(), submission(array={"tasks": "1-2"}), submission()])
    assert (status, body["ids"]) == (201, [5, 6, 8])


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        ({"tasks": "9-1"}, "the range `9-1` runs backwards"),
        ({"tasks": "0-10000"}, "an array of 10,001 tasks; 10,000 is the limit"),
        ({"tasks": "0-1", "params": {"a": ["1"]}}, "parameter `a` has 1 values for 2 tasks"),
        ({"tasks": "0", "params": {"task": ["1"]}}, "No parameter can be called `task`"),
        ({"tasks": "0", "params": {"b": ["1"]}}, "there is no parameter `a` for {a}"),
        ({"tasks": "0", "at_once": 0}, "$.array.at_once"),
        ({"tasks": "all"}, "$.array.tasks"),
    ],
)
async def test_an_array_that_makes_no_sense_is_refused(endpoint: Endpoint, array: object, sentence: str) -> None:
    status, body = await endpoint.post(JOBS, submission(command=["t", "{a}"], array=array))
    # What no schema can say is a conflict.
    assert (status, body["exit_code"]) == ((422, 2) if sentence.startswith("$") else (409, 6))
    assert sentence in body["detail"]
    assert endpoint.store.job_rows == {}


async def test_tasks_count_for_the_limit_of_a_batch(endpoint: Endpoint) -> None:
    status, body = await endpoint.post(JOBS, [submission(), submission(array={"tasks": "0-9999"})])
    assert status == 422
    assert "10,001 jobs with all tasks" in body["detail"]
    assert endpoint.store.job_rows == {}


async def test_ten_thousand_in_one_transaction(endpoint: Endpoint) -> None:
    status, body = await endpoint.post(JOBS, [submission(name=f"n{n}") for n in range(10_000)])
    assert status == 201
    assert body["ids"] == list(range(1, 10_001))
    assert endpoint.store.batches == [10_000]
    assert endpoint.store.job_rows[777].record.submission.name == "n776"
    await rung(endpoint, 1)
    assert len(endpoint.stream.messages) == 1


async def test_more_than_ten_thousand_and_none_are_refused(endpoint: Endpoint) -> None:
    # Those that are too many are counted before any is looked at.
    for many in ([submission()] * 10_001, [1] * 10_001, []):
        status, body = await endpoint.post(JOBS, many)
        assert (status, body["exit_code"]) == (422, 2)
        assert f"The list holds {len(many)} submissions" in body["detail"]
    assert endpoint.store.job_rows == {}


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("after", ["12"], "what it waits for, as in `ok:12`, `any:12-21` or `start:12` - at `$.after[0]`"),
        ("retry", ["twice"], "an end and how often at most, as in `oom:2` or `exit=75:3` - at `$.retry[0]`"),
        ("notify", ["slack!"], "events and targets, as in `end,fail:slack` - at `$.notify[0]`"),
        ("cwd", "project", "an absolute path - at `$.cwd`"),
        ("array", {"tasks": "all"}, "numbers of tasks, as in `0-99` or `0-9,20-30:2` - at `$.array.tasks`"),
        ("script_sha256", "x" * 64, "text of another form - at `$.script_sha256`"),
    ],
)
async def test_text_of_a_wrong_form_is_refused_with_an_example_of_the_right_one(
    endpoint: Endpoint, field: str, value: object, said: str
) -> None:
    status, body = await endpoint.post(JOBS, submission(**{field: value}))
    assert (status, body["detail"]) == (422, f"The submission is not sound: Expected {said}.")


async def test_one_invalid_submission_refuses_the_whole_batch(endpoint: Endpoint) -> None:
    status, body = await endpoint.post(JOBS, [submission(), submission(gpus=0)])
    assert status == 422
    assert "$[1].gpus" in body["detail"]
    assert endpoint.store.job_rows == {}


async def test_submissions_during_a_commit_share_the_next_one(endpoint: Endpoint) -> None:
    gate = threading.Event()
    endpoint.store.before_commit = lambda: gate.wait(60) and None
    first = asyncio.create_task(endpoint.post(JOBS, submission()))
    while not endpoint.context.committer._thread._work_queue.empty() or not endpoint.context.committer._thread._threads:
        await asyncio.sleep(0.005)
    others = [asyncio.create_task(endpoint.post(JOBS, submission(name=f"o{n}"))) for n in range(20)]
    while len(endpoint.context.committer._batches) < 20:
        await asyncio.sleep(0.005)
    gate.set()
    answers = await asyncio.gather(first, *others)
    assert [status for status, _ in answers] == [201] * 21
    assert sorted(body["id"] for _, body in answers) == list(range(1, 22))
    assert endpoint.store.batches == [1, 20]
    for status, body in answers[1:]:
        assert endpoint.store.job_rows[body["id"]].record.submission.name.startswith("o"), status


async def test_each_gets_the_id_of_its_own_job(endpoint: Endpoint) -> None:
    answers = await asyncio.gather(*(endpoint.post(JOBS, submission(name=f"mine-{n}")) for n in range(50)))
    for number, (_, body) in enumerate(answers):
        assert endpoint.store.job_rows[body["id"]].record.submission.name == f"mine-{number}"


async def test_an_invalid_submission_does_not_fail_others_of_its_commit(endpoint: Endpoint) -> None:
    endpoint.store.bad = lambda record: record.submission.name == "bad"
    names = ["a", "bad", "b"]
    answers = await asyncio.gather(*(endpoint.post(JOBS, submission(name=name)) for name in names))
    assert [status for status, _ in answers] == [201, 500, 201]
    assert "secret detail" not in str(answers[1])
    assert sorted(row.record.submission.name or "" for row in endpoint.store.job_rows.values()) == ["a", "b"]


async def test_an_absent_database_confirms_nothing(endpoint: Endpoint) -> None:
    endpoint.store.refuse = Unreachable("The database does not answer.")
    status, body = await endpoint.post(JOBS, submission())
    assert (status, body["exit_code"]) == (503, 4)
    assert endpoint.store.job_rows == {}
    assert endpoint.stream.messages == []
    endpoint.store.refuse = None
    assert (await endpoint.post(JOBS, submission()))[0] == 201


async def test_a_silent_database_is_answered_with_503_and_a_key_finds_what_it_recorded(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuq.api.submit.ANSWER_WITHIN_S", 0.2)
    gate = threading.Event()
    endpoint.store.before_commit = lambda: gate.wait(60) and None
    keys = [{"Idempotency-Key": "sent"}, {"Idempotency-Key": "waiting"}]
    sent = asyncio.create_task(endpoint.post(JOBS, submission(), headers=keys[0]))
    while not endpoint.context.committer._thread._threads:
        await asyncio.sleep(0.005)
    waiting = asyncio.create_task(endpoint.post(JOBS, submission(), headers=keys[1]))
    for status, body in await asyncio.gather(sent, waiting):
        assert (status, body["detail"]) == (503, "The database has not answered for 0.2 s.")
        assert "same Idempotency-Key" in body["hint"]

    gate.set()
    monkeypatch.setattr("gpuq.api.submit.ANSWER_WITHIN_S", 10)
    assert (await endpoint.post(JOBS, submission(), headers=keys[0]))[1]["id"] == 1
    assert endpoint.store.batches == [1, 1], "the one that waited got an error, so it is not recorded later"
    assert (await endpoint.post(JOBS, submission(), headers=keys[1]))[1]["id"] == 2


@pytest.mark.parametrize("way", ["down", "hang"])
async def test_a_submission_succeeds_without_redis(endpoint: Endpoint, way: str) -> None:
    setattr(endpoint.stream, way, True)
    async with asyncio.timeout(60):
        status, body = await endpoint.post(JOBS, submission())
    assert (status, body) == (201, {"id": 1, "dispatcher": None if way == "hang" else "absent"})


async def test_the_same_key_gives_the_same_job(endpoint: Endpoint) -> None:
    key = {"Idempotency-Key": "k-1"}
    first = await endpoint.post(JOBS, submission(), headers=key)
    again = await endpoint.post(JOBS, submission(), headers=key)
    other = await endpoint.post(JOBS, submission(), headers={"Idempotency-Key": "k-2"})
    assert first == again == (201, {"id": 1, "dispatcher": "absent"})
    assert other == (201, {"id": 2, "dispatcher": "absent"})
    batch = [submission(), submission()]
    many = [await endpoint.post(JOBS, batch, headers={"Idempotency-Key": "k-3"}) for _ in range(2)]
    assert many[0] == many[1] == (201, {"ids": [3, 4], "dispatcher": "absent"})


async def test_a_key_that_came_with_another_body_queues_nothing(endpoint: Endpoint) -> None:
    key = {"Idempotency-Key": "k-1"}
    await endpoint.post(JOBS, [submission(name="a"), submission(name="b")], headers=key)
    for body in (submission(name="c"), [submission(name="a")]):
        status, answer = await endpoint.post(JOBS, body, headers=key)
        assert status == 422
        assert "came with another submission" in answer["detail"]
    assert len(endpoint.store.job_rows) == 2


async def test_a_key_of_an_earlier_release_still_gives_its_job(endpoint: Endpoint) -> None:
    endpoint.store.add_jobs(
        [msgspec.structs.replace(record(1.0), owner=user_name(os.geteuid()), idempotency_key="k-1")]
    )
    answer = await endpoint.post(JOBS, submission(name="c"), headers={"Idempotency-Key": "k-1"})
    assert answer == (201, {"id": 1, "dispatcher": "absent"})


async def test_a_key_that_is_too_long_is_refused(endpoint: Endpoint) -> None:
    assert (await endpoint.post(JOBS, submission(), headers={"Idempotency-Key": "k" * 201}))[0] == 422


async def test_a_job_that_fits_no_device_of_now_waits_where_a_pool_may_bring_others(endpoint: Endpoint) -> None:
    """Of the pool's pilots only a small one may be there, or one that has just ended."""
    endpoint.store.set_devices(Device("gpu-16", "pilot", "nvml", "A", 16 * GIB))  # type: ignore[arg-type]
    pools = endpoint.context.settings.home.pools_file
    pools.parent.mkdir(parents=True, exist_ok=True)
    pools.write_text('[{"name": "slurm", "gpus": 4}]')
    assert (await endpoint.post(JOBS, submission(gpus=2, gpu_memory=30 * GIB)))[0] == 201
    assert (await endpoint.post(JOBS, submission(gpus=3, hosts=2)))[0] == 409, "as on any devices"
    pools.write_text("[]")
    assert (await endpoint.post(JOBS, submission(gpus=2)))[0] == 409


async def test_a_job_that_never_fits_is_refused_with_what_is_missing(endpoint: Endpoint) -> None:
    endpoint.store.set_devices(*(Device(f"gpu-{n}", "h", "nvml", "A", n * GIB) for n in (16, 24)))  # type: ignore[arg-type]
    status, body = await endpoint.post(JOBS, submission(gpu_memory=30 * GIB))
    assert (status, body["exit_code"], body["type"]) == (409, 7, "urn:gpuq:never-fits")
    assert "has 24.0 GiB, which is 6.0 GiB too little." in body["detail"]
    assert "gpu-24" in body["detail"]
    assert (await endpoint.post(JOBS, submission(gpu_memory=24 * GIB)))[0] == 201
    assert (await endpoint.post(JOBS, [submission(), submission(gpus=2)]))[0] == 201
    status, body = await endpoint.post(JOBS, [submission(), submission(gpus=5)])
    assert (status, body["exit_code"]) == (409, 7)
    assert "the host with the most has 2, so 3 are missing" in body["detail"]
    assert "so 1 is missing" in (await endpoint.post(JOBS, submission(gpus=3)))[1]["detail"]
    status, body = await endpoint.post(JOBS, submission(gpus=2, gpu_memory=20 * GIB))
    assert (status, body["exit_code"]) == (409, 7)
    assert "on each of 2 devices of one host" in body["detail"]
    assert "which is 4.0 GiB too little." in body["detail"]
    assert len(endpoint.store.job_rows) == 3


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"preemptible": True, "signal": "SIGKILL"}, "SIGKILL"),
        ({"deadline_at": -1}, "$.deadline_at"),
        ({"deadline_at": 1.7976931348623155e308}, "$.deadline_at"),
        ({"time_limit_s": 1e300}, "$.time_limit_s"),
        ({"gpu_memory": 2**60 + 1}, "$.gpu_memory"),
        ({"gpu_memory": 2**64}, "$.gpu_memory"),
        ({"env": {"A=B": "1"}}, "$.env"),
        ({"umask": -1}, "$.umask"),
        ({"umask": 0o1000}, "$.umask"),
    ],
)
async def test_values_out_of_range_are_refused(endpoint: Endpoint, asked: dict[str, object], words: str) -> None:
    status, body = await endpoint.post(JOBS, submission(**asked))
    assert (status, body["exit_code"]) == (422, 2)
    assert words in body["detail"]
    assert not endpoint.store.job_rows


async def test_a_whole_number_may_be_written_as_a_float_and_a_signal_implies_preemptible(endpoint: Endpoint) -> None:
    body = submission(
        gpus=2.0, most_gpus=1, priority=-3.0, signal="SIGUSR1", hints={"layers": {"Dense": 4.0}}, umask=0o027
    )
    assert (await endpoint.post(JOBS, body))[0] == 201
    kept = endpoint.store.job_rows[1].record.submission
    assert (kept.gpus, kept.priority, kept.preemptible, kept.umask) == (2, -3, True, 0o027)
    assert kept.hints is not None
    assert kept.hints.layers == {"Dense": 4}
    for wrong in (2.5, "2", True, 65.0, 1e300):
        assert (await endpoint.post(JOBS, submission(gpus=wrong)))[0] == 422


async def test_a_job_over_several_hosts_is_refused_with_the_hosts_that_are_missing(endpoint: Endpoint) -> None:
    places = [("a", 2), ("b", 2), ("c", 1)]
    devices = (Device(f"{host}/{n}", host, "nvml", "A", GIB) for host, size in places for n in range(size))  # type: ignore[arg-type]
    endpoint.store.set_devices(*devices)
    assert (await endpoint.post(JOBS, submission(gpus=4, hosts=2)))[0] == 201
    assert (await endpoint.post(JOBS, submission(gpus=3, hosts=3)))[0] == 201
    status, body = await endpoint.post(JOBS, submission(gpus=6, hosts=3))
    assert (status, body["exit_code"]) == (409, 7)
    assert "3 hosts with 2 devices each; 2 have so many, so 1 is missing" in body["detail"]
    assert "so 1 is missing" in (await endpoint.post(JOBS, submission(gpus=4, hosts=4)))[1]["detail"]
    assert "of 2 hosts" in (await endpoint.post(JOBS, submission(gpus=2, hosts=2, gpu_memory=2 * GIB)))[1]["detail"]
    assert len(endpoint.store.job_rows) == 2


@pytest.mark.parametrize(
    ("asked", "words"),
    [({}, "divided evenly"), ({"gpus": 3}, "divided evenly"), ({"gpus": 2, "most_gpus": 4}, "a fixed number")],
)
async def test_devices_that_several_hosts_cannot_share_evenly_are_refused(
    endpoint: Endpoint, asked: dict[str, int], words: str
) -> None:
    status, body = await endpoint.post(JOBS, submission(hosts=2, **asked))
    assert (status, body["exit_code"]) == (409, 7)
    assert words in body["detail"]
    assert not endpoint.store.job_rows


MIXED = (
    Device("GPU-1", "a", "nvml", "NVIDIA A100-SXM4-80GB", 79 * GIB, index="0", features=("nvlink",)),  # type: ignore[arg-type]
    Device("GPU-2", "b", "nvml", "Tesla T4", 15 * GIB, index="0"),  # type: ignore[arg-type]
)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"types": ["h100"]}, "it asks for type h100; there are NVIDIA A100-SXM4-80GB, Tesla T4."),
        ({"least_memory": 10**11}, "it asks for a device sold with 100 GB; the largest has 79.0 GiB."),
        ({"hosts": ["c"]}, "it asks for host c; there are a, b."),
        ({"excluded_hosts": ["a", "b"]}, "it excludes all hosts that are left: a, b."),
        ({"devices": ["gpu7"]}, "There is no device 'gpu7'; there are a:gpu0, b:gpu0."),
        ({"types": ["t4"], "features": [["nvlink"]]}, "it asks for the features nvlink; there are none."),
        ({"types": ["t4", "a100"], "devices": ["b:gpu0"], "least_memory": 40 * GIB}, "it names other devices"),
    ],
)
async def test_devices_that_there_are_not_are_refused_with_those_that_there_are(
    endpoint: Endpoint, asked: dict[str, object], words: str
) -> None:
    endpoint.store.set_devices(*MIXED)
    status, body = await endpoint.post(JOBS, [submission(), submission(constraints=asked)])
    assert (status, body["exit_code"]) == (409, 7)
    assert words in body["detail"]
    status, said = await endpoint.post("/api/v1/predict", submission(constraints=asked))
    assert (status, said["never_fits"]) == (200, body["detail"])
    assert not endpoint.store.job_rows


async def test_devices_are_kept_by_their_ids_and_those_excluded_are_named(endpoint: Endpoint) -> None:
    endpoint.store.set_devices(*MIXED)
    wanted = submission(constraints={"devices": ["a:gpu0"], "types": []})
    assert (await endpoint.post(JOBS, wanted))[0] == 201
    kept = endpoint.store.job_rows[1].record.submission.constraints
    assert kept is not None
    assert kept.devices == ("GPU-1",)
    shown = (await endpoint.get(f"{JOBS}/1"))[1]
    assert shown["constraints"] == {"devices": ["a:gpu0"]}
    for answer in (await endpoint.get(f"{JOBS}/1/explanation"), await endpoint.post("/api/v1/predict", wanted)):
        assert [(one["device_name"], one["rule"]) for one in answer[1]["excluded"]] == [("b:gpu0", "Constraints")]


async def test_a_device_may_be_asked_for_as_soon_as_it_is_shown(endpoint: Endpoint) -> None:
    """Devices are read every two seconds, and a host may have come since."""
    mine = submission(constraints={"hosts": ["b"]})
    endpoint.store.set_devices(Device("gpu-0", "a", "nvml", "A", 16 * GIB))  # type: ignore[arg-type]
    assert (await endpoint.post(JOBS, mine))[0] == 409
    endpoint.store.set_devices(*(Device(f"gpu-{n}", host, "nvml", "A", 16 * GIB) for n, host in enumerate("ab")))  # type: ignore[arg-type]
    assert (await endpoint.post(JOBS, mine))[0] == 201


async def test_constraints_that_ask_for_nothing_are_as_none(endpoint: Endpoint) -> None:
    assert (await endpoint.post(JOBS, submission(constraints={})))[0] == 201
    assert endpoint.store.job_rows[1].record.submission.constraints is None


async def test_with_no_device_known_yet_any_size_is_accepted(endpoint: Endpoint) -> None:
    assert (await endpoint.post(JOBS, submission(gpu_memory=500 * GIB)))[0] == 201


async def test_predict_queues_nothing(endpoint: Endpoint) -> None:
    endpoint.store.set_devices(Device("gpu-0", "h", "nvml", "A", 16 * GIB))  # type: ignore[arg-type]
    status, body = await endpoint.post("/api/v1/predict", submission(gpu_memory=20 * GIB, kind="mine"))
    assert status == 200
    assert body["kind"] == "mine"
    assert body["forecast"]["peak_utilization_pct"] == 61.0
    assert "4.0 GiB" in body["never_fits"]
    assert endpoint.store.job_rows == {}


async def test_predict_says_from_what_evidence_and_how_sure(endpoint: Endpoint) -> None:
    afternoon(endpoint.store, endpoint.stream)
    hints = {"framework": "keras", "settings": {"batch": {"value": "64", "origin": "default"}}}
    _, body = await endpoint.post("/api/v1/predict", submission(hints=hints))
    assert [one["device_type"] for one in body["device_types"]] == ["NVIDIA H200"]
    assert body["evidence"] == {
        "text": "12 runs of this kind",
        "own_runs": 12,
        "nearest": [{"kind": "ada:other.py", "likeness": 0.7}],
        "model_version": "m-7",
        "bounds_meant_to_hold": 0.95,
        "bounds_held": 0.97,
        "judged_on": 240,
    }


@pytest.mark.parametrize("soon_s", [100.0, -3.0], ids=["later", "at once, three seconds ago"])
async def test_predict_says_nothing_of_a_start_that_was_estimated_of_another_sort_of_job(
    endpoint: Endpoint, soon_s: float
) -> None:
    endpoint.store.set_devices(*(Device(f"gpu-{n}", "h", "nvml", "A", 16 * GIB) for n in range(2)))  # type: ignore[arg-type]
    now = time.time()
    view = msgspec.json.decode(picture(now)) | {"newcomer_start": [now + soon_s, now + 300]}
    endpoint.stream.picture = msgspec.json.encode(view)
    starts = {}
    for what, asked in (("one", {}), ("two", {"gpus": 2}), ("urgent", {"priority": 5})):
        body = (await endpoint.post("/api/v1/predict", submission(**asked)))[1]
        starts[what] = body["expected_start"] is not None
    assert starts == {"one": soon_s > 0, "two": False, "urgent": False}


async def test_predict_says_beside_whom_it_might_run_now(endpoint: Endpoint) -> None:
    afternoon(endpoint.store, endpoint.stream)
    _, body = await endpoint.post("/api/v1/predict", submission())
    found = {one["partners"][0]["job"]: one for one in body["beside"]}
    assert set(found) == {42, 44, 47}
    assert found[42]["verdict"]["rule"] == "Resources"
    assert [partner["job"] for partner in found[42]["partners"]] == [42, 43]
    assert found[44]["verdict"]["rule"] == "PredictedMemory"
    partner = found[44]["partners"][0]
    assert (partner["name"], partner["upper_slowdown"], partner["partner_slowdown"]) == ("llama-8b-lora", 1.1, 1.3)
    assert partner["evidence"] == "measured"
    assert endpoint.store.requests(100) == []


async def test_predict_says_which_devices_would_take_it_now(endpoint: Endpoint) -> None:
    afternoon(endpoint.store, endpoint.stream)
    names = [device.id for device in endpoint.store.devices()]

    async def reply(gpus: int = 1, **changes: Any) -> tuple[list[str], bool]:
        endpoint.stream.picture = picture(time.time(), *(live_device(name, 141, 3.0, **changes) for name in names[:2]))
        endpoint.context.live._last = None
        _, body = await endpoint.post("/api/v1/predict", submission(gpus=gpus))
        return body["free_devices"], body["expected_start"] is not None

    assert await reply() == await reply(gpus=2) == (["gpu0", "gpu1"], True)
    assert await reply(gpus=3) == ([], False)
    assert await reply(unwell="XID 79") == ([], False)
    assert await reply(reserved_for=8) == ([], False), "it is kept free for a job that has waited long"
    _, body = await endpoint.post("/api/v1/predict", submission())
    assert [(one["device_name"], one["rule"], one["numbers"]) for one in body["excluded"]] == [
        (name, "Reserved", {"reserved_for": 8}) for name in ("gpu0", "gpu1")
    ]
    assert await reply(used_memory_bytes=130 * GIB, foreign_memory_bytes=130 * GIB) == ([], False)


async def test_a_bound_ends_at_the_device(endpoint: Endpoint) -> None:
    endpoint.store.set_devices(Device("gpu-0", "h", "nvml", "A", 11 * GIB))  # type: ignore[arg-type]
    _, body = await endpoint.post("/api/v1/predict", submission())
    assert (
        body["forecast"]["upper_memory_bytes"] == body["device_types"][0]["forecast"]["upper_memory_bytes"] == 11 * GIB
    )


async def test_predict_beside_a_job_or_a_kind_that_is_named(endpoint: Endpoint) -> None:
    afternoon(endpoint.store, endpoint.stream)
    endpoint.stream.picture = None
    for beside, job, name in (("47", 47, "gan-celeba"), ("ada:~/gan.py --batch-size=64", None, None)):
        status, body = await endpoint.post("/api/v1/predict", submission(), params={"beside": beside})
        assert status == 200
        [one] = body["beside"]
        assert (one["device"], one["partners"][0]["job"], one["partners"][0]["name"]) == (None, job, name)
        # 61% and 61% are too much together; were it not so, the partner would suffer more than its budget.
        assert one["verdict"]["rule"] == "PredictedLoad"
        assert (one["verdict"]["device"], one["verdict"]["numbers"]["residents"]) == (None, beside)
    assert (await endpoint.post("/api/v1/predict", submission(), params={"beside": "999"}))[0] == 404
    assert (await endpoint.post("/api/v1/predict", submission(), params={"beside": ""}))[0] == 422
    assert (await endpoint.post("/api/v1/predict", submission(), params={"device_type": "Abacus"}))[0] == 404


@pytest.mark.parametrize(
    "hints",
    [
        {"framework": "a\nb"},
        {"framework": "x" * 101},
        {"constructors": ["a"] * 17},
        {"layers": {"Dense": 0}},
        {"settings": {"password": {"value": "1", "origin": "default"}}},
        {"settings": {"batch": {"value": "1", "origin": "elsewhere"}}},
        {"secret": "x"},
    ],
)
async def test_hints_are_bounded(endpoint: Endpoint, hints: dict[str, object]) -> None:
    status, body = await endpoint.post(JOBS, submission(hints=hints))
    assert status == 422, body
    assert endpoint.store.job_rows == {}


async def test_a_long_body_that_is_not_sound_is_not_read_a_second_time(endpoint: Endpoint) -> None:
    """The second time it is read as objects, which take twenty times as much memory."""
    for length, status in ((2**10, 201), (2**20, 422)):
        body = json.dumps(submission(gpus=2.0, stdin="x" * length))
        answered, said = await endpoint.post(JOBS, data=io.BytesIO(body.encode()))
        assert (answered, "got `float` - at `$.gpus`" in said.get("detail", "")) == (status, status == 422)


@pytest.mark.parametrize(("slow", "fields"), [("fits", {"gpus": 2}), ("describe", {"env": {"A": "x" * 2**14}})])
async def test_a_submission_that_takes_long_to_look_at_keeps_no_user_from_reading(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, slow: str, fields: dict[str, Any]
) -> None:
    begun, answered, was_answered = threading.Event(), threading.Event(), list[bool]()
    endpoint.store.set_devices(*(Device(f"gpu-{n}", "rack-3", "nvml", "NVIDIA H200", 141 * GIB) for n in (0, 1)))  # type: ignore[arg-type]

    def wait(*_: object) -> tuple[str, str, dict[str, Any]]:
        begun.set()
        was_answered.append(answered.wait(10))
        return "kind", "signature", {}

    if slow == "fits":
        monkeypatch.setattr(submit, "check_fits", wait)
    else:
        endpoint.context.describe = wait
    sending = asyncio.create_task(endpoint.post(JOBS, submission(**fields)))
    while not begun.is_set():
        await asyncio.sleep(0.01)
    assert (await endpoint.get("/version"))[0] == 200
    answered.set()
    assert (await sending)[0] == 201
    assert was_answered == [True]


async def test_submissions_before_the_shutdown_are_committed(settings: object) -> None:
    from tests.api.conftest import started
    from tests.api.support import FaultyStore, MemoryStream

    store = FaultyStore()
    gate = threading.Event()
    store.before_commit = lambda: gate.wait(60) and None
    async with started(settings, store, MemoryStream()) as endpoint:  # type: ignore[arg-type]
        asking = asyncio.create_task(endpoint.post(JOBS, submission()))
        while endpoint.context.committer._batches == [] and not endpoint.context.committer._thread._threads:
            await asyncio.sleep(0.005)
        endpoint.context.stopping.set()
        gate.set()
        assert await asking == (201, {"id": 1, "dispatcher": "absent"})


async def test_where_jobs_run_as_their_submitters_no_service_submits(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller is who runs the tests, so the least uid is set around that."""
    as_submitter = replace(settings, worker=replace(settings.worker, run_as="submitter"))
    async with started(as_submitter, FaultyStore(), MemoryStream()) as endpoint:
        monkeypatch.setattr("gpuq.api.handlers.submit.LEAST_UID", os.getuid() + 1)
        status, body = await endpoint.post(JOBS, submission())
        assert (status, body["exit_code"]) == (403, 5)
        assert f"its uid is {os.getuid()}" in body["detail"]
        monkeypatch.setattr("gpuq.api.handlers.submit.LEAST_UID", os.getuid())
        assert (await endpoint.post(JOBS, submission()))[0] == 201
        assert endpoint.store.job_rows[1].record.uid == os.getuid()


async def test_dependencies_are_kept_as_they_were_submitted(endpoint: Endpoint) -> None:
    await endpoint.post(JOBS, [submission(), submission()])
    status, body = await endpoint.post(JOBS, submission(after=["ok:1", "any:1-2"], begin_at=4_000_000_000.0))
    assert status == 201
    _, job = await endpoint.get(f"{JOBS}/{body['id']}")
    assert (job["after"], job["begin_at"]) == (["ok:1", "any:1-2"], "2096-10-02T07:06:40.000Z")
    assert not endpoint.store.job_rows[3].waits.eligible


@pytest.mark.parametrize(
    ("after", "status", "sentence"),
    [
        ("ok:4", 404, "There is no job 4, which `ok:4` waits for."),
        ("any:1-4", 404, "There is no job 4"),
        ("ok:1", 409, "Job 1 has ended as FAILED, so `ok:1` can never hold."),
        ("fail:2", 409, "Job 2 has ended as COMPLETED, so `fail:2` can never hold."),
        ("ok:1-3", 409, "Job 1 has ended as FAILED, so `ok:1-3` can never hold."),
        ("ok:3-2", 409, "runs backwards"),
        ("after:3", 422, "$[1].after"),
    ],
)
async def test_a_dependency_that_can_never_hold_refuses_the_whole_batch(
    endpoint: Endpoint, after: str, status: int, sentence: str
) -> None:
    await endpoint.post(JOBS, [submission()] * 3)
    rows = endpoint.store.job_rows
    rows[1], rows[2] = (
        msgspec.structs.replace(rows[job], state=state)
        for job, state in ((1, JobState.FAILED), (2, JobState.COMPLETED))
    )
    answered, body = await endpoint.post(JOBS, [submission(after=["any:1"]), submission(after=[after])])
    assert answered == status
    assert sentence in body["detail"]
    assert len(rows) == 3


async def test_a_dependency_on_too_many_jobs_is_refused(endpoint: Endpoint) -> None:
    status, problem = await endpoint.post(JOBS, submission(after=["start:46-46353996025"]))
    assert (status, problem["exit_code"]) == (409, 6)
    assert problem["detail"] == "A dependency is on more than 100,000 jobs."


async def test_a_dependency_on_an_array_is_one_on_all_of_its_tasks(endpoint: Endpoint) -> None:
    _, array = await endpoint.post(JOBS, submission(array={"tasks": "0-2"}))
    status, body = await endpoint.post(JOBS, submission(after=[f"ok:{array['id']}"]))
    assert status == 201
    assert endpoint.store.job_rows[body["id"]].record.submission.after == ("ok:1-3",)
    status, body = await endpoint.post(JOBS, submission(after=["ok:1-1"]))
    assert endpoint.store.job_rows[body["id"]].record.submission.after == ("ok:1",), "its first task"


async def test_tasks_wait_for_the_corresponding_ones_of_another_array(endpoint: Endpoint) -> None:
    await endpoint.post(JOBS, submission())
    await endpoint.post(JOBS, submission(array={"tasks": "0-9"}))
    status, body = await endpoint.post(JOBS, submission(array={"tasks": "3-5"}, after=["corr:2"]))
    assert status == 201
    assert (await endpoint.get(f"/api/v1/arrays?ids={body['id']}"))[1]["arrays"][0]["tasks"] == "3-5"
    waits = [(await endpoint.get(f"{JOBS}/{body['id'] + place}"))[1]["after"] for place in range(3)]
    assert waits == [["ok:5"], ["ok:6"], ["ok:7"]]
    for part in ("corr:5-7", "corr:4-8"):
        status, _ = await endpoint.post(JOBS, submission(array={"tasks": "3-5"}, after=[part]))
        assert status == 201


async def test_tasks_wait_for_those_of_their_numbers_whatever_these_are(endpoint: Endpoint) -> None:
    _, earlier = await endpoint.post(JOBS, submission(array={"tasks": "5,7,10-40:10,41"}))
    assert earlier["id"] == 1
    for tasks, after, waits in (
        ("7,20-40:20,41", "corr:1", ["ok:2", "ok:4", "ok:6", "ok:7"]),
        ("5-41:36", "corr:1-7", ["ok:1", "ok:7"]),
        ("10", "corr:3", ["ok:3"]),
        ("5", "corr:1-1", ["ok:1"]),
        ("7,30", "corr:2-6:3,7", ["ok:2", "ok:5"]),
    ):
        _, body = await endpoint.post(JOBS, submission(array={"tasks": tasks}, after=[after]))
        found = [(await endpoint.get(f"{JOBS}/{body['id'] + place}"))[1]["after"] for place in range(len(waits))]
        assert found == [[one] for one in waits], (tasks, after)


@pytest.mark.parametrize(
    ("after", "tasks", "status", "sentence"),
    [
        ("corr:2", None, 409, "`corr:2` is for the tasks of an array, and this is one job."),
        ("corr:1", "0-2", 404, "Job 1 is no array, so `corr:1` names no corresponding tasks."),
        ("corr:99", "0-2", 404, "Job 99 is no array"),
        ("corr:2", "8-11", 404, "Array 2 has no task 10 among those of `corr:2`, so task 10 would wait for ever."),
        ("corr:3-5", "0-3", 404, "Array 2 has no task 0 among those of `corr:3-5`"),
        ("corr:2,4-6:2", "1,3", 404, "Array 2 has no task 1 among those of `corr:2,4-6:2`"),
        ("corr:2-20000", "1,3", 409, "`after` makes no sense: 'corr:2-20000' names more than 10,000 tasks."),
        ("corr:2", "0-9", 409, "Job 4 has ended as FAILED, so `corr:2-11` can never hold."),
        ("corr:2", "0-9:2", 409, "Job 4 has ended as FAILED, so `corr:2-10:2` can never hold."),
    ],
)
async def test_corresponding_tasks_that_there_are_not_are_refused(
    endpoint: Endpoint, after: str, tasks: str | None, status: int, sentence: str
) -> None:
    await endpoint.post(JOBS, submission())
    await endpoint.post(JOBS, submission(array={"tasks": "0-9"}))
    rows = endpoint.store.job_rows
    rows[4] = msgspec.structs.replace(rows[4], state=JobState.FAILED)
    array = {} if tasks is None else {"array": {"tasks": tasks}}
    answered, body = await endpoint.post(JOBS, submission(after=[after], **array))
    assert (answered, sentence in body["detail"]) == (status, True), body
    assert len(rows) == 11


async def test_large_jobs_that_have_not_ended_have_a_limit_together(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dispatcher has all of them in memory. Ordinary ones are still taken."""
    monkeypatch.setattr(limits, "SMALL_BYTES", 1000)
    monkeypatch.setattr(limits, "MOST_UNENDED", 10_000)
    large = submission(stdin="x" * 4000)
    assert (await endpoint.post(JOBS, [large, large]))[0] == 201
    status, problem = await endpoint.post(JOBS, large)
    assert (status, "would take more than" in problem["detail"]) == (403, True)
    assert (await endpoint.post(JOBS, submission()))[0] == 201
    rows = endpoint.store.job_rows
    rows[1] = msgspec.structs.replace(rows[1], state=JobState.CANCELLED)
    assert (await endpoint.post(JOBS, large))[0] == 201
