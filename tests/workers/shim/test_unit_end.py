"""How a unit ended, by PID 1's words: the job can explain its exit status, and cannot change it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gpuq_workers.shim.unit_end import end_of

from tests.support.hostile import put
from tests.workers.conftest import SHIM

CLAIM = {"ending": "out of memory", "exit_code": 1, "reason": "out of memory: CUDA"}


def claim(folder: Path, **changes: Any) -> None:
    (folder / "exit.json").write_text(json.dumps({**CLAIM, **changes}))


def environ(how: str, status: str, result: str = "exit-code") -> dict[str, str]:
    return {"SERVICE_RESULT": result, "EXIT_CODE": how, "EXIT_STATUS": status}


def test_the_shims_explanation_is_taken_where_it_agrees(tmp_path: Path) -> None:
    claim(tmp_path)
    end = end_of(environ("exited", "1"), False, str(tmp_path))
    assert (end.ending, end.exit_code, end.reason) == ("out of memory", 1, "out of memory: CUDA")


@pytest.mark.parametrize(
    ("how", "status", "changes", "ending", "code"),
    [
        ("exited", "1", {"exit_code": 0, "ending": "exited"}, "killed", 1),  # success is not the job's to claim
        ("killed", "KILL", {"exit_code": 1}, "killed", 137),
        ("dumped", "SEGV", {"exit_code": 0}, "killed", 139),
        ("exited", "1", {"ending": "never started"}, "killed", 1),  # it would be started again
        ("exited", "1", {"ending": "stopped"}, "exited", 1),  # gpuq did not stop it
        ("exited", "1", {"reason": 7, "exit_code": "1"}, "out of memory", 1),
        ("exited", "1", {"exit_code": 1e400}, "killed", 1),
    ],
)
def test_a_false_claim_changes_nothing(
    tmp_path: Path, how: str, status: str, changes: dict[str, Any], ending: str, code: int
) -> None:
    claim(tmp_path, **changes)
    end = end_of(environ(how, status), False, str(tmp_path))
    assert (end.ending, end.exit_code) == (ending, code)


@pytest.mark.parametrize(
    "shape", ["a pipe", "a socket", "a full folder", "a link to itself", "a link to an endless device", "a list"]
)
def test_no_shape_of_the_claim_holds_it_up(tmp_path: Path, shape: str) -> None:
    put(shape, tmp_path / "exit.json")
    assert end_of(environ("killed", "TERM"), False, str(tmp_path)).exit_code == 143


@pytest.mark.parametrize(
    ("words", "ordered", "ending", "code"),
    [
        (environ("killed", "KILL"), True, "stopped", 137),
        (environ("killed", "KILL", "oom-kill"), False, "host out of memory", 137),
        (environ("killed", "TERM", "timeout"), False, "timed out", 143),
        (environ("exited", "217"), False, "exited", 126),  # systemd could not become the user
        ({}, False, "lost", None),
    ],
)
def test_an_end_without_a_claim(
    tmp_path: Path, words: dict[str, str], ordered: bool, ending: str, code: int | None
) -> None:
    end = end_of(words, ordered, str(tmp_path))
    assert (end.ending, end.exit_code) == (ending, code)


def test_a_user_who_is_refused_on_the_host_reads_why(tmp_path: Path) -> None:
    reasons = [end_of(environ("exited", status), False, str(tmp_path)).reason for status in ("224", "226")]
    assert reasons == [
        "PAM refused a session to its user, whose account may have expired (exited 224); `journalctl` on its host says more",
        "its unit could not be set up (exited 226); `journalctl` on its host says more",
    ]


def test_a_stop_explains_a_shim_that_was_asked_to_end(tmp_path: Path) -> None:
    claim(tmp_path, ending="lost", exit_code=143)
    assert end_of(environ("exited", "143"), True, str(tmp_path)).ending == "stopped"
    assert end_of(environ("exited", "143"), False, str(tmp_path)).ending == "lost"


def record(folder: Path, job: Path) -> None:
    command = [sys.executable, "-I", "-S", str(SHIM.with_name("unit_end.py")), str(folder), str(job)]
    subprocess.run(command, check=True, env={**os.environ, **environ("exited", "1")})


def test_it_is_written_once_where_the_job_cannot_write(tmp_path: Path) -> None:
    folder, job = tmp_path / "7-1", tmp_path / "jobs"
    folder.mkdir()
    job.mkdir()
    (folder / "order.json").write_text(json.dumps({"unit": {"name": "gpuq-7-1.service", "at": 1.0, "uptime": 0.0}}))
    claim(job)
    record(folder, job)
    first = (folder / "exit.json").read_text()
    claim(job, exit_code=0)
    record(folder, job)
    assert (folder / "exit.json").read_text() == first
    assert json.loads(first)["ending"] == "out of memory"
    assert json.loads(first)["lasted_s"] > 0


def test_a_folder_that_is_gone_is_no_failure(tmp_path: Path) -> None:
    record(tmp_path / "none", tmp_path)
