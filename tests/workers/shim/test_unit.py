"""The shim of a unit: the job first, the rest while it runs; orders come as signals, the end goes out as an exit code."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gpuq_broker.unit import order_for_shim
from gpuq_workers.job_lease import renew
from gpuq_workers.shim import unit as shim_unit
from gpuq_workers.shim.lease import uptime

from gpuq.adapters import process
from gpuq.messages import launch
from gpuq.messages.launch import LEASE_FILE, SubmittedCommand
from tests.support.broker import unit_order
from tests.workers.conftest import SHIM, gone, wait_for

UNIT = SHIM.with_name("start_unit.py")


class Job:
    """One attempt in a unit, without the unit."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shim: subprocess.Popen[bytes] | None = None

    def start(self, *command: str, stdin: str | None = None, **changes: Any) -> Job:
        submitted = SubmittedCommand(
            command=command,
            cwd="/",
            env={},
            stdin=stdin,
            umask=0o027,
            time_limit_s=changes.pop("limit", None),
            interactive=changes.pop("interactive", None),
        )
        lease_s, lease = changes.pop("lease", (None, None))
        order = unit_order(lease_s=lease_s, env={"PATH": os.environ["PATH"], "A": "1=2"}, **{"grace_s": 0.5, **changes})
        path = self.folder.parent / "order"
        path.write_bytes(order_for_shim(submitted, order).replace(LEASE_FILE.encode(), os.fsencode(lease or "")))
        with path.open("rb") as file:
            self.shim = subprocess.Popen([sys.executable, "-I", "-S", str(UNIT), str(self.folder)], stdin=file)
        return self

    def end(self) -> tuple[int, dict[str, Any]]:
        assert self.shim is not None
        return self.shim.wait(60), json.loads((self.folder / "exit.json").read_text())

    def log(self) -> str:
        return (self.folder / "output.log").read_text()

    def logged(self, text: str) -> None:
        log = self.folder / "output.log"
        wait_for(lambda: log.exists() and text in log.read_text(), what=text)

    def send(self, number: signal.Signals) -> None:
        assert self.shim is not None
        self.shim.send_signal(number)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    (tmp_path / "job").mkdir()
    made = Job(tmp_path / "job")
    yield made
    if made.shim is not None and made.shim.poll() is None:
        identity = process.identify(made.shim.pid)
        assert identity is not None
        process.kill_tree(identity)
        made.shim.wait()


def test_before_its_job_it_loads_nothing_of_the_standard_library() -> None:
    look = f"import sys; sys.path.append({str(SHIM.parents[2])!r}); before = set(sys.modules)\n"
    look += "import gpuq_workers.shim.unit\nprint(*sorted(set(sys.modules) - before - set(sys.builtin_module_names)))"
    found = subprocess.run([sys.executable, "-I", "-S", "-c", look], capture_output=True, text=True, check=True).stdout
    more = {name for name in found.split() if not name.startswith("gpuq_workers")}
    assert more <= {"fcntl"}  # which is a library of its own in some builds


def test_it_exits_as_its_job_does(job: Job) -> None:
    code, end = job.start("sh", "-c", "umask; pwd; echo $A; exit 3").end()
    assert (code, end["ending"], end["exit_code"]) == (3, "exited", 3)
    assert job.log() == "0027\n/\n1=2\n"


def test_arguments_arrive_as_they_were_given(job: Job) -> None:
    given = ["", " a b ", "\n", "$HOME", "ä€", "--"]
    job.start(sys.executable, "-c", "import sys; print(ascii(sys.argv[1:]))", *given).end()
    assert job.log() == f"{given!a}\n"


def test_a_signal_is_reported_as_a_shell_does(job: Job) -> None:
    code, end = job.start("sh", "-c", "kill -KILL $$").end()
    assert (code, end["ending"]) == (137, "killed")


def test_a_program_that_is_not_there(job: Job) -> None:
    code, end = job.start("no-such-program").end()
    assert (code, end["reason"]) == (127, "no-such-program was not found")


@pytest.mark.parametrize(("given", "read"), [("print(7)\n", "7\n"), ("", ""), (None, "")])
def test_standard_input(job: Job, given: str | None, read: str) -> None:
    assert job.start(sys.executable, "-", stdin=given).end()[0] == 0
    assert job.log() == read


def test_what_the_job_leaves_behind_ends_with_it(job: Job) -> None:
    # Before that, what the job starts belongs to PID 1, which ends it with the unit.
    adopted = f"until [ -e {job.folder}/started.json ]; do sleep 0.01; done"
    code, _ = job.start("sh", "-c", f"{adopted}; setsid sleep 300 & echo $!; exit 4").end()
    assert code == 4
    assert gone(int(job.log().splitlines()[0]))


def test_what_cleans_up_after_thirty_days_leaves_out_the_folder_of_a_job_that_runs(job: Job) -> None:
    """Whoever holds a lock on a folder keeps systemd-tmpfiles from it: tmpfiles.d(5)."""
    job.start("sleep", "60", grace_s=0.1)
    wait_for((job.folder / "started.json").exists, what="the shim")
    folder = os.open(job.folder, os.O_RDONLY)
    with pytest.raises(BlockingIOError):
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    job.send(signal.SIGTERM)
    job.end()
    fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(folder)


def test_sigterm_ends_it(job: Job) -> None:
    """From PID 1, which has sent it to the job's processes as well; so the shim sends none."""
    code = "import signal, time\nsignal.signal(15, lambda *_: print('TERM'))\nprint('up', flush=True)\ntime.sleep(300)"
    job.start(sys.executable, "-c", code).logged("up")
    job.send(signal.SIGTERM)
    exit_code, end = job.end()
    assert (exit_code, end["ending"], job.log()) == (137, "lost", "up\n")


def test_sigusr1_lets_it_save(job: Job) -> None:
    code = "import signal, sys, time\nsignal.signal(15, lambda *_: sys.exit(print('saved')))\nprint('up', flush=True)\n"
    code += "time.sleep(300)"
    job.start(sys.executable, "-c", code, grace_s=60).logged("up")
    job.send(signal.SIGUSR1)
    exit_code, end = job.end()
    assert (exit_code, end["ending"], job.log()) == (0, "stopped", "up\nsaved\n")


def test_its_time_limit_ends_it(job: Job) -> None:
    exit_code, end = job.start("sleep", "300", limit=0.2, grace_s=60).end()
    assert (exit_code, end["ending"]) == (143, "timed out")


def test_it_signals_the_job_before_its_time_limit(job: Job) -> None:
    script = "trap 'echo saved; exit 0' USR1; while :; do sleep 0.05; done"
    job.start(
        "bash", "-c", script, limit=60.0, signal_before_s=59.8, checkpoint_signal=int(signal.SIGUSR1), resumes=True
    )
    exit_code, end = job.end()
    assert (exit_code, end["ending"], job.log()) == (0, "timed out", "saved\n")


def test_the_job_starts_before_the_rest_of_the_shim_is_loaded(job: Job) -> None:
    """What these modules take to load is longer than all else of a start."""
    code = f"import sys; sys.path.append({str(SHIM.parents[2])!r}); import gpuq_workers.shim.unit; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert not {"ctypes", "enum", "json", "re", "signal", "typing"} & set(done.stdout.split())


def test_both_sides_name_one_folder() -> None:
    assert shim_unit.FOLDER == launch.JOB_FOLDER


def test_a_job_whose_lease_was_not_renewed_is_not_started_and_counts_as_lost(job: Job, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    code, end = job.start("touch", str(ran), lease=(0.5, tmp_path / "lease")).end()
    assert (code, end["ending"], end["exit_code"], ran.exists()) == (125, "lost", 125, False)
    assert "not connected" in end["reason"]


def test_a_job_runs_as_long_as_its_lease_is_renewed_and_is_ended_then(job: Job, tmp_path: Path) -> None:
    lease = tmp_path / "lease"
    renew(lease, uptime())
    job.start("sh", "-c", "echo up; exec sleep 60", lease=(1.0, lease), grace_s=60)
    job.logged("up")
    began = uptime()
    while uptime() < began + 1.5:
        renew(lease, uptime())
        assert job.shim is not None
        with pytest.raises(subprocess.TimeoutExpired):
            job.shim.wait(0.1)
    code, end = job.end()
    assert (code, end["ending"]) == (143, "lost")
