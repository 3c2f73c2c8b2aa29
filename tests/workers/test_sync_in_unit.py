"""The first process of a job with `sync` that runs as its submitter: it asks the worker service for the files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpuq_broker.unit import order_for_shim
from gpuq_workers import sync, sync_in_unit, trees

from gpuq.errors import Unreachable
from gpuq.files import BadStream
from gpuq.home import Home
from gpuq.messages.launch import UnitOrder
from gpuq.messages.submission import Submission, SyncedTree, command_in_unit
from tests.workers.test_trees import ME, sent_by, submit


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "trees.sock")


@pytest.fixture
def of_the_job(tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The environment of a job's first process, with a worker service that answers; the tree that the job was submitted with."""
    home = Home(tmp_path / "h")
    tree = sent_by(home, ME)
    submit(home, 7, ME, tree)
    for name, value in (("GPUQ_JOB_ID", "7"), ("GPUQ_ATTEMPT", "1")):
        monkeypatch.setenv(name, value)
    with trees.serving(home, place):
        yield tree


def test_the_jobs_own_process_makes_the_files_and_lets_the_services_read_them(
    of_the_job: str, place: str, tmp_path: Path
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    code = (
        "import os, sys; from pathlib import Path; from functools import partial; from gpuq_workers import sync, sync_in_unit\n"
        f"os.umask(0o077); pieces = partial(sync_in_unit.pieces, {place!r})\n"
        f"cwd = {str(own / 'files/bin')!r}\n"
        f"sys.exit(sync.serve(Path({str(own)!r}), pieces, {of_the_job!r}, cwd, ['./run'], for_services=True))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, f"{own}/files/bin\n"), done.stderr
    modes = [(own / name).stat().st_mode & 0o777 for name in (sync.FOLDER, sync.LISTING, "files/bin/run")]
    assert modes == [0o755, 0o644, 0o700]


def test_files_that_are_not_those_that_the_dispatcher_signed_are_refused(
    of_the_job: str, place: str, tmp_path: Path
) -> None:
    with pytest.raises(BadStream, match="not what was submitted"):
        sync.fill(tmp_path, lambda: sync_in_unit.pieces(place), "0" * 64)


def test_a_worker_service_that_is_away_can_be_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GPUQ_JOB_ID", "GPUQ_ATTEMPT"):
        monkeypatch.setenv(name, "1")
    with pytest.raises(Unreachable, match="gives no files"):
        list(sync_in_unit.pieces(str(tmp_path / "none")))


def test_the_tree_is_part_of_what_is_signed_and_the_unit_gets_it_first() -> None:
    tree = "0" * 64
    asked = Submission(command=("/w/run", "/else"), cwd="/w/src", env={}, sync=SyncedTree(tree=tree, folder="/w"))
    command = command_in_unit(asked)
    assert (command.command, command.cwd) == (("/run/gpuq-job/files/run", "/else"), "/run/gpuq-job/files/src")
    assert tree in command.text()
    order = UnitOrder(
        submitted=command.text(), env={}, cores=None, nodes=(), memory_max_bytes=None, tasks_max=None,
        grace_s=1, save_grace_s=1, checkpoint_signal=15, log_limit_bytes=4096,
    )  # fmt: skip
    fields = order_for_shim(command, order).decode().split("\0")
    first = [sys.executable, "-I", "-m", "gpuq_workers.sync_in_unit", tree, "/run/gpuq-job/files/src", "--"]
    assert fields[2] == "/run/gpuq-job"
    assert fields[8 : 8 + len(first) + 2] == [*first, "/run/gpuq-job/files/run", "/else"]
