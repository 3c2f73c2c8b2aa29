"""`gpuq rerun`: a job that ended is submitted again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cli import samples
from tests.cli.conftest import Command, FakeApi, Reply


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
