"""Attempts' folders: what cannot be read is not missing; those of attempts reported long ago are deleted."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from gpuq_workers.attempts import AttemptFolder, EndFile, Marker, UnreadableFile, folders_in, make_folder, prune

from gpuq.core.state.attempt import AttemptId, Ending
from gpuq.core.state.job import JobId
from tests.support.hostile import SHAPES, put
from tests.workers.conftest import Attempt

DAY = 86_400.0


def an_attempt(root: Path, job: int, ended_at: float | None, *, reported: bool) -> AttemptFolder:
    attempt = AttemptId(JobId(job), 1)
    folder = make_folder(root / f"{job}-1", attempt)
    assert folder is not None
    if ended_at is not None:
        folder.close_unstarted("a test", ended_at)
    folder.mark(Marker(started=1, exited=2 if reported else None))
    return folder


@pytest.mark.parametrize("shape", SHAPES)
def test_a_file_that_gpuq_did_not_write_is_unreadable_and_not_missing(tmp_path: Path, shape: str) -> None:
    folder = AttemptFolder(tmp_path, AttemptId(JobId(1), 1))
    readers = {
        "order.json": folder.order,
        "started.json": folder.started,
        "exit.json": folder.ended,
        "blinked.json": folder.blinked,
    }
    for name, read in readers.items():
        assert read() is None
        put(shape, tmp_path / name)
        with pytest.raises(UnreadableFile, match=name):
            read()
    put(shape, tmp_path / "spooled.json")
    assert folder.marker() == Marker()
    assert folder.shim() is None
    assert folder.is_wanted_back(), "exit.json is there, whatever it is"


@pytest.mark.parametrize("shape", SHAPES)
def test_an_attempt_is_closed_over_whatever_the_job_has_left(tmp_path: Path, shape: str) -> None:
    folder = AttemptFolder(tmp_path / "1-1", AttemptId(JobId(1), 1))
    folder.path.mkdir()
    for name in ("exit.json", "exit.json.new"):
        put(shape, folder.path / name)
    folder.close_abandoned(Ending.LOST, "a test", 5.0)
    assert folder.ended() == EndFile(Ending.LOST, None, "a test", 5.0)

    shutil.rmtree(folder.path)
    put(shape, folder.path)
    folder.close_abandoned(Ending.LOST, "a test", 6.0)
    end = folder.ended()
    assert end is not None
    assert end.at == 6.0


def test_a_reason_of_any_length_and_content_can_be_read_again(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "1-1", AttemptId(JobId(1), 1))
    assert folder is not None
    assert folder.close_unstarted("no \udc80\0 " + "x" * 5000, 5.0)
    end = folder.ended()
    assert end is not None
    assert (end.reason[:6], len(end.reason)) == ("no ?? ", 600)


def test_a_file_of_an_earlier_release_has_version_1(tmp_path: Path) -> None:
    folder = AttemptFolder(tmp_path, AttemptId(JobId(1), 1))
    (tmp_path / "exit.json").write_text('{"ending": "exited", "exit_code": 3, "reason": "", "at": 5.0}')
    assert folder.ended() == EndFile(Ending.EXITED, 3, "", 5.0, version=1)


def test_an_order_whose_shim_is_no_process_is_unreadable(tmp_path: Path) -> None:
    folder = AttemptFolder(tmp_path, AttemptId(JobId(1), 1))
    for pid in (-1, 0, 2**40):
        Attempt(tmp_path).order("true", shim=["boot", pid, 1])
        with pytest.raises(UnreadableFile, match="names no process"):
            folder.order()
        assert folder.shim() is None


def test_only_folders_are_attempts(tmp_path: Path) -> None:
    (tmp_path / "1-1").mkdir()
    (tmp_path / "2-1").symlink_to(tmp_path / "1-1")
    (tmp_path / "3-1").touch()
    assert [folder.path.name for folder in folders_in(tmp_path)] == ["1-1"]


def test_only_old_and_reported_attempts_are_deleted(tmp_path: Path) -> None:
    old = an_attempt(tmp_path, 1, 0.0, reported=True)
    kept = [
        an_attempt(tmp_path, 2, 0.0, reported=False),
        an_attempt(tmp_path, 3, 29 * DAY, reported=True),
        an_attempt(tmp_path, 4, None, reported=True),
    ]

    assert prune(tmp_path, keep_days=30, now=31 * DAY) == 1

    assert not old.path.exists()
    assert all(folder.path.exists() for folder in kept)
