"""`gpuq rerun`: a job that ended is submitted again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from gpuq.messages.environment import in_environment
from tests.cli import samples
from tests.cli.conftest import Command, FakeApi, Reply, Request


def ended(cwd: Path, **changes: Any) -> dict[str, Any]:
    asked = {
        "declared_memory_bytes": 2**33,
        "time_limit_s": 3600.0,
        "retry": ["oom:2"],
        "notify": None,
        "project": "nlp",
    }
    what = {
        "cwd": str(cwd),
        "command": ["sh", "-c", "exit 1", "a b"],
        "name": "train",
        "environment": ["PATH", "SEED", "DATA"],
    }
    return samples.ended(42, "FAILED", 1, **{**asked, **what, **changes})


def test_a_job_is_submitted_again_with_its_options_and_those_that_are_given(gpuq: Command, api: FakeApi) -> None:
    there = gpuq.cwd / "there"
    there.mkdir()
    (there / "gpuq.toml").write_text("[submit]\nretry = 'oom:9'\n")
    api.on("GET", "/api/v1/jobs/42", ended(there))
    api.on("POST", "/api/v1/jobs", Reply({"id": 43}, 201))
    done = gpuq("rerun", "42", "--gpu-mem", "12G", "--retry", "oom:3", SEED="7")
    assert (done.code, done.out) == (0, "43\n")
    assert done.err == "gpuq: warning: job 42 had DATA, and not set here; -e DATA=VALUE sets it.\n"
    body = api.asked("POST", "/api/v1/jobs")[-1].body
    assert (body["cwd"], body["command"][1:]) == (str(there), ["-c", "exit 1", "a b"])
    assert (body["gpu_memory"], body["retry"], body["time_limit_s"]) == (12 * 2**30, ["oom:3"], 3600)
    assert (body["name"], body["project"], body["env"]["SEED"]) == ("train", "nlp", "7")
    assert "DATA" not in gpuq("rerun", "42", "-e", "DATA=/x", "-e", "SEED=1").err


@pytest.mark.parametrize("name", ["-foo", "--notify", "a b"])
def test_a_name_that_begins_as_an_option_is_kept(gpuq: Command, api: FakeApi, name: str) -> None:
    api.on("GET", "/api/v1/jobs/42", ended(gpuq.cwd, name=name))
    api.on("POST", "/api/v1/jobs", Reply({"id": 43}, 201))
    assert gpuq("rerun", "42", "--notify", "none").code == 0
    assert api.asked("POST", "/api/v1/jobs")[-1].body["name"] == name


def test_a_script_of_python_gets_another_interpreter(gpuq: Command, api: FakeApi) -> None:
    script, other = gpuq.cwd / "train.py", gpuq.cwd / "python"
    script.write_text("")
    other.symlink_to(sys.executable)
    job = ended(gpuq.cwd, command=[sys.executable, str(script), "--lr", "0.1"], script=str(script))
    api.on("GET", "/api/v1/jobs/42", job)
    api.on("POST", "/api/v1/jobs", Reply({"id": 43}, 201))
    for options, python in (([], sys.executable), (["--python", str(other)], str(other))):
        assert gpuq("rerun", "42", *options).code == 0
        assert api.asked("POST", "/api/v1/jobs")[-1].body["command"] == [python, str(script), "--lr", "0.1"]


def test_modules_and_an_image_are_its_options_and_are_replaced(gpuq: Command, api: FakeApi) -> None:
    words = ["python", "/in/the/image.py"]
    had = in_environment("x.org/old", ["cuda/11"], words)
    api.on("GET", "/api/v1/jobs/42", ended(gpuq.cwd, command=had))
    api.on("POST", "/api/v1/jobs", Reply({"id": 43}, 201))
    for options, command in (
        ([], had),
        (["--image", "x.org/new"], in_environment("x.org/new", ["cuda/11"], words)),
        (["--module", "cuda/12", "--module", "nccl"], in_environment("x.org/old", ["cuda/12", "nccl"], words)),
    ):
        assert gpuq("rerun", "42", *options).code == 0
        assert api.asked("POST", "/api/v1/jobs")[-1].body["command"] == command, options


def test_what_cannot_be_submitted_again_is_named_with_the_reason(gpuq: Command, api: FakeApi) -> None:
    for job, code, sentence in (
        (samples.running(42), 6, "Job 42 has not ended: it is RUNNING."),
        (ended(gpuq.cwd, command=[]), 2, "another user's"),
        (ended(gpuq.cwd, synced=True), 2, "--sync"),
        (ended(gpuq.cwd / "gone"), 2, "gone cannot be entered: No such file or directory."),
    ):
        api.on("GET", "/api/v1/jobs/42", job)
        done = gpuq("rerun", "42")
        assert (done.code, sentence in done.err) == (code, True), done.err
    assert api.asked("POST", "/api/v1/jobs") == []


def sweep(api: FakeApi, cwd: Path, states: tuple[str, ...]) -> None:
    """Array 28 over `lr`, with tasks 0, 2, 4, … in these states."""
    lrs = [f"0.{number}" for number in range(len(states))]
    tasks = [
        {**samples.job(28 + place), "state": state, "array": 28, "task": 2 * place, "params": {"lr": lrs[place]}}
        for place, state in enumerate(states)
    ]
    whole = {
        "id": 28,
        "count": len(states),
        "tasks": f"0-{2 * len(states) - 2}:2",
        "at_once": 2,
        "states": {state: states.count(state) for state in states},
        "name": "sweep-{lr}",
        "command": ["sh", "-c", "exit {lr}"],
        "params": ["lr"],
    }

    def listed(request: Request) -> Reply:
        wanted = request.query["state"].split(",")
        return Reply({"jobs": [task for task in tasks if task["state"] in wanted], "next": None})

    api.on("GET", "/api/v1/arrays", lambda asked: Reply({"arrays": [whole] * ("28" in asked.query["ids"].split(","))}))
    api.on("GET", "/api/v1/jobs", listed)
    for place, state in enumerate(states):
        job = ended(cwd, command=["sh", "-c", f"exit {lrs[place]}"], environment=["PATH", "lr"])
        of_array = {"array": 28, "task": 2 * place}
        one = {**job, **of_array, "id": 28 + place, "state": state, "name": "sweep-0.0"}
        api.on("GET", f"/api/v1/jobs/{28 + place}", one)
    api.on("POST", "/api/v1/jobs", Reply({"id": 50}, 201))


def test_an_array_or_some_of_its_tasks_are_submitted_again_as_an_array(gpuq: Command, api: FakeApi) -> None:
    sweep(api, gpuq.cwd, ("COMPLETED", "FAILED", "TIMEOUT", "FAILED"))
    for words, tasks, lrs in (
        (["28"], "0-6:2", ["0.0", "0.1", "0.2", "0.3"]),
        (["28", "--state", "FAILED"], "2,6", ["0.1", "0.3"]),
        (["28_1-5"], "2,4", ["0.1", "0.2"]),
        (["28_[2,4]", "--state", "TO"], "4", ["0.2"]),
    ):
        done = gpuq("rerun", *words, "--gpu-mem", "12G")
        assert (done.code, done.out, done.err) == (0, "50\n", ""), words
        body = api.asked("POST", "/api/v1/jobs")[-1].body
        assert body["array"] == {"tasks": tasks, "params": {"lr": lrs}, "at_once": 2}
        assert (body["command"][1:], body["name"]) == (["-c", "exit {lr}"], "sweep-{lr}")
        assert (body["gpu_memory"], body["time_limit_s"]) == (12 * 2**30, 3600)
    for word in ("28_2", "29"):
        assert gpuq("rerun", word).code == 0
        body = api.asked("POST", "/api/v1/jobs")[-1].body
        assert body["array"] == {"tasks": "2", "params": {"lr": ["0.1"]}, "at_once": 2}, "with its number and values"
    assert "2 jobs are named" in gpuq("rerun", "28_0,99").err


def test_tasks_that_have_not_ended_and_states_that_none_is_in_are_refused(gpuq: Command, api: FakeApi) -> None:
    sweep(api, gpuq.cwd, ("COMPLETED", "RUNNING"))
    done = gpuq("rerun", "28")
    assert (done.code, "1 of these 2 tasks have not ended: 28_2 is RUNNING" in done.err) == (6, True), done.err
    done = gpuq("rerun", "28", "--state", "FAILED")
    assert (done.code, "none of these tasks is FAILED: 1 COMPLETED, 1 RUNNING" in done.err) == (2, True), done.err
    done = gpuq("rerun", "28_0", "--state", "FAILED")
    assert (done.code, "none of these tasks is FAILED" in done.err) == (2, True), done.err
    api.on("GET", "/api/v1/jobs/3", samples.ended(3, "FAILED", 1))
    done = gpuq("rerun", "3", "--state", "FAILED")
    assert (done.code, "one job is named" in done.err) == (2, True), done.err
