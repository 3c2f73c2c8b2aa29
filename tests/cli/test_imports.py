"""Taking over the queues of task-spooler (a real one where Debian's is installed) and of gflow (its daemon's answer)."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from gpuq.cli.imports.task_spooler import _split
from tests.cli.conftest import Command, FakeApi, Reply

JOB = {
    "submitted_by": "ann",
    "conda_env": None,
    "script": None,
    "depends_on": None,
    "depends_on_ids": [],
    "task_id": None,
}
GFLOW = [
    {
        **JOB,
        "id": 9,
        "state": "Hold",
        "command": "python t.py && echo 'a  b'",
        "gpus": 2,
        "run_dir": "/tmp",
        "priority": 60,
    }
    | {"run_name": "late", "project": "vision", "time_limit": {"secs": 7200, "nanos": 0}, "gpu_memory_limit_mb": 8192},
    {**JOB, "id": 7, "state": "Queued", "command": "true", "gpus": 0, "run_dir": "/tmp", "priority": 10},
    {**JOB, "id": 8, "state": "Queued", "command": "true", "gpus": 1, "run_dir": "/tmp", "depends_on_ids": [7]},
    {**JOB, "id": 6, "state": "Running", "command": "true", "gpus": 1, "run_dir": "/tmp"},
    {**JOB, "id": 5, "state": "Queued", "command": "true", "gpus": 1, "run_dir": "/tmp", "submitted_by": "bob"},
]


@pytest.fixture
def daemon(gpuq: Command) -> Iterator[None]:
    """gflow's daemon, as far as it lists its jobs; its settings name its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            raw = json.dumps(GFLOW).encode()
            self.send_response(200 if self.path == "/jobs" else 404)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    folder = gpuq.cwd / ".config" / "gflow"
    folder.mkdir(parents=True)
    (folder / "gflow.toml").write_text(f'[daemon]\nhost = "127.0.0.1"\nport = {server.server_address[1]}\n')
    gpuq.env["USER"] = "ann"
    yield
    server.shutdown()
    server.server_close()
    thread.join()


def test_gflows_waiting_jobs_are_shown_and_then_taken_over_together(gpuq: Command, api: FakeApi, daemon: None) -> None:
    api.on("POST", "/api/v1/jobs", Reply({"ids": [41, 42]}, 201))
    done = gpuq("import", "gflow")
    assert done.code == 0
    assert "stays: it waits for job 7 there" in done.out
    assert "`gpuq import gflow --yes` submits 2" in done.err
    assert not api.requests, "the preview asks nothing of gpuq"
    done = gpuq("import", "gflow", "--yes", "--json")
    assert [job.get("job") for job in done.json["jobs"]] == [41, None, 42]
    first, second = api.asked("POST", "/api/v1/jobs")[0].body
    assert (first["command"][1:], first["gpus"], first["priority"]) == (["-c", "true"], 1, 0)
    assert second["command"][-1] == "python t.py && echo 'a  b'"
    assert (second["gpus"], second["priority"], second["hold"], second["name"]) == (2, 50, True, "late")
    assert (second["project"], second["time_limit_s"], second["gpu_memory"]) == ("vision", 7200, 8 * 2**30)


def test_what_is_no_queue_is_refused(gpuq: Command) -> None:
    (gpuq.cwd / "jobs.json").write_text('{"jobs": [{"id": 1}]}')
    for words, code, sentence in (
        (["gflow", "--file", "jobs.json"], 2, "this is no list of gflow's jobs"),
        (["ts", "--file", "jobs.json"], 2, "--file is for gflow only"),
        (["gflow"], 4, "gflow's daemon does not answer"),
    ):
        done = gpuq("import", *words)
        assert (done.code, sentence in done.err) == (code, True), done.err
    done = gpuq("import", "ts", PATH=str(gpuq.cwd))
    assert (done.code, "no task-spooler on PATH" in done.err) == (2, True)


def test_words_of_task_spooler_are_divided_as_it_does() -> None:
    options, command = _split(["-fn", "-L", "a run", "-G", "2", "-D", "3", "python", "-c", "x"])
    assert (options.L, options.G, command) == ("a run", "2", ["python", "-c", "x"])
    assert _split(["-C"])[1] == []


needs_tsp = pytest.mark.skipif(shutil.which("tsp") is None, reason="tsp not found: apt-get install task-spooler")


@needs_tsp
def test_the_server_of_task_spooler_is_not_started_to_look_into_its_queue(gpuq: Command, tmp_path: Path) -> None:
    gpuq.env["TS_SOCKET"] = str(tmp_path / "ts")
    done = gpuq("import", "ts")
    assert (done.code, done.out) == (0, "No job waits there.\n")
    assert not (tmp_path / "ts").exists()


@needs_tsp
def test_jobs_of_a_real_task_spooler_keep_their_words_folder_and_label(
    gpuq: Command, api: FakeApi, tmp_path: Path
) -> None:
    api.on("POST", "/api/v1/jobs", Reply({"ids": [41, 42]}, 201))
    gpuq.env["TS_SOCKET"] = str(tmp_path / "ts")
    work = tmp_path / "a folder"
    work.mkdir()

    def tsp(*words: str) -> None:
        subprocess.run(["tsp", *words], env=gpuq.env, cwd=work, check=True, stdout=subprocess.DEVNULL)

    try:
        tsp("sleep", "60")
        tsp("-L", "my run", "python3", "-c", "print('a  b')")
        tsp("sleep", "60")
        tsp("-d", "true")
        done = gpuq("import", "ts", "--yes")
        assert done.code == 0, done.err
        assert "stays: it waits for job 2 there" in done.out
        assert "tsp -r 1\n  tsp -r 2" in done.err
        first, second = api.asked("POST", "/api/v1/jobs")[0].body
        assert (first["command"][1:], first["name"], first["cwd"]) == (["-c", "print('a  b')"], "my run", str(work))
        assert second["command"][1:] == ["60"]
    finally:
        tsp("-k", "0")
        tsp("-K")
