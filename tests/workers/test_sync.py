"""The first process of a job with `sync`: it makes the files that were submitted, and becomes the command."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpuq_workers import sync

from gpuq.adapters.synced import SyncedTrees
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.job import JobId
from gpuq.errors import Conflict, Unreachable
from gpuq.files import BadStream, ListedFile, SentFile, last_line, pieces_of
from gpuq.home import Home

ATTEMPT = AttemptId(JobId(7), 1)
TEXT = b"#!/bin/sh\necho $1 in $PWD\n"
FILE = ListedFile("bin/run", len(TEXT), hashlib.sha256(TEXT).hexdigest(), executable=True)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.attempt(7, 1).mkdir(parents=True)
    return home


@pytest.fixture
def tree(home: Home) -> str:
    trees = SyncedTrees(home, "ann", 10_000)
    receiver = trees.receiver()
    for piece in (*pieces_of(SentFile("any", len(TEXT)), io.BytesIO(TEXT)), last_line(1)):
        receiver.feed(piece)
    receiver.close()
    return trees.keep([FILE])[0]


def run(home: Home, tree: str, *words: str, owner: str = "ann", cwd: str = "bin") -> subprocess.CompletedProcess[str]:
    folder = home.attempt(7, 1) / sync.FOLDER / cwd
    command = sync.command(home, ATTEMPT, owner, tree, str(folder), words)
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_the_command_runs_with_the_files_in_its_folder(home: Home, tree: str) -> None:
    done = run(home, tree, "./run", "it is")
    assert (done.returncode, done.stdout) == (0, f"it is in {home.attempt(7, 1)}/files/bin\n")
    assert json.loads((home.attempt(7, 1) / sync.LISTING).read_text()) == {"bin/run": [FILE.size, FILE.sha256]}


def test_a_program_that_the_host_does_not_have_is_named_with_the_way_out(home: Home, tree: str) -> None:
    done = run(home, tree, "/opt/torch/bin/python", "train.py")
    assert (done.returncode, done.stdout) == (127, "")
    assert "/opt/torch/bin/python cannot be started on" in done.stderr
    assert "--sync --python PATH" in done.stderr


def test_the_files_of_another_user_are_not_had(home: Home, tree: str) -> None:
    done = run(home, tree, "./run", owner="bob")
    assert (done.returncode, done.stdout) == (75, "")
    assert "are not here, or not any more" in done.stderr


def test_a_transfer_that_broke_off_is_tried_again(home: Home, tree: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync, "_PAUSE_S", 0.0)
    whole = list(SyncedTrees(home, "ann").pieces(tree))
    attempts = [whole[:1], [], whole]

    def pieces() -> Iterator[bytes]:
        yield from attempts.pop(0)
        if len(attempts) == 1:
            raise Unreachable

    sync.fill(home.attempt(7, 1), pieces, tree)
    assert (home.attempt(7, 1) / "files/bin/run").read_bytes() == TEXT


def test_files_that_are_not_what_was_submitted_are_not_run(home: Home, tree: str) -> None:
    with pytest.raises(BadStream, match="not what was submitted"):
        sync.fill(home.attempt(7, 1), lambda: SyncedTrees(home, "ann").pieces(tree), "0" * 64)


def test_it_ends_after_a_while_without_them(home: Home, tree: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync, "WITHIN_S", -1.0)

    def away() -> Iterator[bytes]:
        raise Unreachable("The main host does not answer.")
        yield b""

    with pytest.raises(Unreachable):
        sync.fill(home.attempt(7, 1), away, tree)
    with pytest.raises(Conflict):
        sync.fill(home.attempt(7, 1), lambda: SyncedTrees(home, "bob").pieces(tree), tree)
