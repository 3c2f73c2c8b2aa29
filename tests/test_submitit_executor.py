"""submitit on gpuq: what is submitted, what runs in the job, and one function through a real gpuq."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.site import Site

submitit = pytest.importorskip("submitit", reason="needs the extra `submitit`")
from gpuq import submitit_executor  # noqa: E402
from gpuq.errors import BadInput  # noqa: E402
from gpuq.submitit_executor import GpuqExecutor  # noqa: E402

STORY = """
import os, submitit

def double(x):
    print("doubling", x)
    return 2 * x

folder = os.environ["GPUQ_HOME"] + "/submitit"
executor = submitit.AutoExecutor(folder, cluster="gpuq")
executor.update_parameters(timeout_min=5, name="double", gpuq_project="vision")
job = executor.submit(double, 21)
print(job.result(), job.stdout().count("doubling 21"))
"""


def test_a_function_runs_as_a_job_and_gives_its_result() -> None:
    with Site(devices_cpu_count=1, admission_memory_headroom=0.95) as site:
        done = subprocess.run(
            [sys.executable, "-c", STORY], env=site.env, cwd=site.home, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout) == (0, "42 1\n"), done.stderr
        job = site.wait(1)
        assert (job["state"], job["name"], job["project"]) == ("COMPLETED", "double", "vision")


def bodies(monkeypatch: pytest.MonkeyPatch, executor: GpuqExecutor, *functions: Any) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []

    def submit_all(_: object, batch: list[dict[str, Any]]) -> list[int]:
        sent.extend(batch)
        return list(range(1, 1 + len(batch)))

    monkeypatch.setattr("gpuq.client.Client.submit_all", submit_all)
    monkeypatch.chdir(executor.folder.parent)
    executor.submit_array(functions)
    return sent


def test_parameters_become_options_and_jobs_of_a_function_are_one_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = GpuqExecutor(tmp_path / "folder", max_num_timeout=1)
    executor.update_parameters(
        timeout_min=10, nodes=2, gpus_per_node=4, tasks_per_node=4, preemptible=True, share="never"
    )
    first, second = bodies(monkeypatch, executor, dict, list)
    assert (first["hosts"], first["gpus"], first["share"], first["signal"]) == (2, 8, "never", "SIGUSR2")
    assert first["time_limit_s"] == 2 * 600 + 60, "once more after the limit"
    assert [first["kind"], second["kind"]] == ["submitit dict", "submitit list"]
    assert first["command"][-6:] == ("--tasks", "4", "--limit", "600.0", "--delay", "30")
    assert first["env"]["SUBMITIT_EXECUTOR"] == "gpuq"
    assert len(list((tmp_path / "folder").glob("*_submitted.pkl"))) == 2


def test_a_refused_submission_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = GpuqExecutor(tmp_path / "folder")
    executor.update_parameters(gpus="4-1")
    with pytest.raises(BadInput, match="runs backwards"):
        bodies(monkeypatch, executor, dict)
    assert list((tmp_path / "folder").iterdir()) == []


TASK = """
import os, signal, sys, time
rank = os.environ["SUBMITIT_GPUQ_PROCID"]
def save(*_):
    print("saves", flush=True)
    sys.exit(144 if not os.path.exists("again" + rank) else 3)
if os.path.exists("saved" + rank): open("again" + rank, "w").close()
open("saved" + rank, "w").close()
print("rank", rank, "of", os.environ["SUBMITIT_GPUQ_NTASKS"], flush=True)
signal.signal(signal.SIGUSR2, save)
time.sleep(60)
"""


def test_tasks_are_started_again_in_the_same_job_after_they_saved_their_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in {"GPUQ_JOB_ID": "7", "NNODES": "2", "NODE_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    start = subprocess.Popen
    monkeypatch.setattr(
        submitit_executor.subprocess, "Popen", lambda words, **more: start([sys.executable, "-c", TASK], **more)
    )
    words = [str(tmp_path / "logs"), "--tasks", "2", "--limit", "60", "--delay", "59.9", "--stderr-to-stdout"]
    assert submitit_executor.main(words) == 3
    for rank in (2, 3):
        said = (tmp_path / "logs" / f"7_{rank}_log.out").read_text()
        assert said == f"rank {rank} of 4\nsaves\n" * 2


def test_a_task_that_goes_on_after_its_limit_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUQ_JOB_ID", "8")
    monkeypatch.setattr(submitit_executor, "_KILL_AFTER_S", 0.0)
    code = "import signal, time\nfor n in (2, 10, 12): signal.signal(n, lambda *_: None)\ntime.sleep(60)"
    start = subprocess.Popen
    monkeypatch.setattr(
        submitit_executor.subprocess, "Popen", lambda words, **more: start([sys.executable, "-c", code], **more)
    )
    assert submitit_executor.main([str(tmp_path), "--limit", "0.1", "--delay", "30"]) == 128 + signal.SIGKILL


def test_a_process_without_a_handler_is_not_signalled() -> None:
    code = "import signal\nsignal.signal(signal.SIGUSR2, lambda *_: None)\nprint(flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert submitit_executor._handles(process.pid, signal.SIGUSR2)
        assert not submitit_executor._handles(process.pid, signal.SIGUSR1)
        process.kill()
    assert not submitit_executor._handles(process.pid, signal.SIGUSR2)
