"""Pauses by the freezer, on files in place of the kernel's; those by signals, with real processes, are in `test_blink`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from gpuq_workers.shim import pause, tree
from gpuq_workers.shim.pause import Frozen, Stopped

from tests.support.patience import wait_for

# Whoever spawns a process waits in the kernel, where no signal is heeded, until that has opened its files.
UNINTERRUPTIBLE = """
import os, sys
os.posix_spawn("/bin/true", ["true"], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, sys.argv[1], os.O_RDONLY, 0)])
"""


def test_a_process_that_could_not_be_stopped_goes_on_once_the_kernel_lets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that waits for a driver or a file system: the stop signal waits with it."""
    os.mkfifo(tmp_path / "gate")
    with subprocess.Popen([sys.executable, "-c", UNINTERRUPTIBLE, str(tmp_path / "gate")]) as job:
        wait_for(lambda: tree.state(job.pid) == b"D")
        monkeypatch.setattr(pause, "_tree", lambda _: [(job.pid, tree.start_ticks(job.pid))])
        monkeypatch.setattr(pause, "_STOPS_WITHIN_S", 0.05)
        stopped = Stopped(os.getpid())
        assert stopped.stop() == "not all of it stopped at once"

        stopped.resume()
        (tmp_path / "gate").write_bytes(b"")
        ended = wait_for(lambda: (state := tree.state(job.pid)) in {b"T", b"Z"} and state)
        job.kill()
    assert ended == b"Z"


def test_a_control_group_is_frozen_and_thawed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On files in place of the kernel's: no control group could be written to where this was made."""
    (tmp_path / "cgroup.events").write_text("populated 1\nfrozen 1\n")
    monkeypatch.setattr(pause, "_tree", lambda _: [(os.getpid(), 1)])
    frozen = Frozen(0, str(tmp_path))
    assert frozen.stop() is None
    assert (tmp_path / "cgroup.freeze").read_text() == "1"
    assert frozen.look() is None
    (tmp_path / "cgroup.events").write_text("populated 1\nfrozen 0\n")
    assert frozen.look() == "another program resumed the job meanwhile"
    frozen.resume()
    assert (tmp_path / "cgroup.freeze").read_text() == "0"


@pytest.mark.parametrize(
    ("job", "ours", "group"),
    [
        ("/user/gpuq/job-1", "/user/gpuq", "/user/gpuq/job-1"),
        ("/user/gpuq", "/user/gpuq", None),
        ("/user/gpuq", "/user/gpuq/worker", None),
        ("/", "/user/gpuq", None),
        (None, "/user/gpuq", None),
    ],
)
def test_only_a_group_without_the_shim_is_the_jobs_own(
    monkeypatch: pytest.MonkeyPatch, job: str | None, ours: str, group: str | None
) -> None:
    groups = {1: ours, 2: job}
    monkeypatch.setattr(pause, "_group_of", groups.__getitem__)
    monkeypatch.setattr(pause, "_tree", lambda _: [(2, 1)])
    assert pause._own_group(1, 2) == (group and f"{pause._GROUPS}{group}")
