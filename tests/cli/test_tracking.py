"""Runs of TensorBoard, W&B and MLflow that a job wrote: from its output and from folders, which may be hostile."""

from __future__ import annotations

import getpass
import os
import time
from pathlib import Path
from typing import Any

from gpuq.cli import tracking
from gpuq.cli.tracking import in_folder, in_output
from tests.cli import samples
from tests.cli.conftest import Command, FakeApi, Reply

NOW = 1_795_220_000.0
STAMP = time.strftime("%Y%m%d_%H%M%S", time.localtime(NOW + 5))
RUN = "0123456789abcdef0123456789abcdef"
OUTPUT = f"""\
wandb: Tracking run with wandb version 0.19.1
wandb: Run data is saved locally in /data/wandb/run-{STAMP}-abc12345
wandb: \x1b[33m⭐️ View project at \x1b[34mhttps://wandb.ai/ann/nlp\x1b[0m
wandb: 🚀 View run brisk-sun-7 at: https://wandb.ai/ann/nlp/runs/abc12345
epoch 1
🏃 View run able-fox at: http://127.0.0.1:5000/#/experiments/0/runs/{RUN}
"""


def found(folder: Path, since: float = NOW, until: float = NOW + 100) -> dict[str, dict[str, Any]]:
    return {run["tool"]: run for run in in_folder(folder, since, until)}


def write_runs(folder: Path, at: float = NOW + 5) -> None:
    stamp = time.strftime("%Y%m%d_%H%M%S", time.localtime(at))
    (folder / "wandb" / f"offline-run-{stamp}-xyz98765" / "files").mkdir(parents=True)
    events = folder / "runs" / "exp1" / f"events.out.tfevents.{int(at)}.node1.77.0"
    events.parent.mkdir(parents=True)
    events.touch()
    meta = folder / "mlruns" / "0" / RUN / "meta.yaml"
    meta.parent.mkdir(parents=True)
    meta.write_text(f"artifact_uri: file:///x\nstart_time: {int(at * 1000)}\nstatus: 3\n")


def test_what_the_tools_print_names_the_run() -> None:
    runs = list(in_output(OUTPUT.replace("\x1b[33m", "").replace("\x1b[34m", "").replace("\x1b[0m", "")))
    assert [(run["tool"], run["id"], run["url"], run["found_in"]) for run in runs] == [
        ("wandb", "abc12345", None, "output"),
        ("wandb", "abc12345", "https://wandb.ai/ann/nlp/runs/abc12345", "output"),
        ("mlflow", RUN, f"http://127.0.0.1:5000/#/experiments/0/runs/{RUN}", "output"),
    ]
    assert runs[0]["folder"] == f"/data/wandb/run-{STAMP}-abc12345"


def test_folders_of_runs_that_began_while_the_job_ran_are_found(tmp_path: Path) -> None:
    write_runs(tmp_path)
    runs = found(tmp_path)
    assert (runs["wandb"]["id"], runs["wandb"]["offline"]) == ("xyz98765", True)
    assert runs["mlflow"]["id"] == RUN
    assert runs["tensorboard"]["folder"] == str(tmp_path / "runs" / "exp1")
    assert found(tmp_path, NOW + 10) == found(tmp_path, NOW - 100, NOW) == {}, "those of other jobs"


def test_hostile_folders_neither_hang_nor_lead_elsewhere(tmp_path: Path, monkeypatch: Any) -> None:
    elsewhere, job = tmp_path / "else", tmp_path / "job"
    write_runs(elsewhere)
    (job / "mlruns" / "0" / RUN).mkdir(parents=True)
    (job / "link").symlink_to(elsewhere)
    (job / "loop").symlink_to(job)
    os.mkfifo(job / "mlruns" / "0" / RUN / "meta.yaml")
    os.mkfifo(job / f"events.out.tfevents.{int(NOW) + 5}.x")
    deep = job
    for _ in range(20):
        deep /= "d"
    deep.mkdir(parents=True)
    (deep / f"events.out.tfevents.{int(NOW) + 5}.x").touch()
    (job / "wandb").mkdir()
    (job / "wandb" / "run-99999999_999999-abc").mkdir()
    assert found(job) == {}
    monkeypatch.setattr(tracking, "_MOST_ENTRIES", 50)
    for number in range(200):
        (job / f"{number:03}").touch()
    (job / f"events.out.tfevents.{int(NOW) + 5}.x").unlink()
    assert len(list(tracking._entries(job))) <= 50
    assert list(in_folder(job / "missing", NOW, NOW + 100)) == []
    assert list(in_output("wandb: View run " + "x" * 100_000 + " at: https://a/runs/b\n" * 10)) == []


def test_show_lists_the_runs(gpuq: Command, api: FakeApi, tmp_path: Path) -> None:
    work = tmp_path / "it's work"
    work.mkdir()
    write_runs(work, NOW - 8995)
    job = {
        **samples.job(42, state="COMPLETED", started_at="2026-11-20T22:00:00Z", started_at_unix=NOW - 9000),
        "ended_at_unix": NOW, "owner": getpass.getuser(), "cwd": str(work), "attempts": [],
    }  # fmt: skip
    api.on("GET", "/api/v1/jobs/42", job)
    api.on("GET", "/api/v1/jobs/42/logs", Reply(raw=OUTPUT.encode()))
    out = gpuq("show", "42").out.partition("tracking")[2]
    assert "W&B abc12345  https://wandb.ai/ann/nlp/runs/abc12345\n" in out
    assert f"MLflow {RUN}  http://127.0.0.1:5000/#/experiments/0/runs/{RUN}\n" in out
    assert "W&B xyz98765" in out
    assert "wandb sync '" in out
    assert "(by its time)" in out
    assert "tensorboard --logdir '" in out
    assert [run["tool"] for run in gpuq("show", "42", "--json").json["tracking"]] == [
        "wandb",
        "mlflow",
        "wandb",
        "tensorboard",
    ]


def test_the_folders_of_other_users_are_left_alone(gpuq: Command, api: FakeApi, tmp_path: Path) -> None:
    write_runs(tmp_path, NOW - 8995)
    job = {**samples.job(42, state="COMPLETED", started_at_unix=NOW - 9000), "cwd": str(tmp_path), "owner": "other"}
    api.on("GET", "/api/v1/jobs/42", job)
    done = gpuq("show", "42", "--json")
    assert "tracking" not in done.json
    assert api.asked("GET", "/api/v1/jobs/42/logs") == []
