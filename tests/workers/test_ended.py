"""A start of the worker service opens no folder of an attempt that is over, and loses nothing for that."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from gpuq_workers import residents as residents_module
from gpuq_workers.attempts import AttemptFolder, Marker, make_folder
from gpuq_workers.ended import EndedAttempts
from gpuq_workers.residents import Residents
from gpuq_workers.spool import Spool

from gpuq.core.measuring.measurement import Measurement
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.job import JobId

DAY = 86_400.0


def an_attempt(root: Path, job: int, ended_at: float | None, *, reported: bool = True) -> AttemptFolder:
    attempt = AttemptId(JobId(job), 1)
    folder = make_folder(root / f"{job}-1", attempt)
    assert folder is not None
    if ended_at is not None:
        folder.close_unstarted("a test", ended_at)
    folder.mark(Marker(started=1, exited=2 if reported else None))
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "attempts"
    made.mkdir()
    return made


def a_start(root: Path) -> Residents:
    """A worker service that begins, after its first look."""

    async def measure(_folder: AttemptFolder) -> Measurement:
        return Measurement()

    spool = Spool(root.parent / "spool", "alpha")
    residents = Residents(root, spool, measure, grace_s=0.2, instance="home", clock=lambda: 31 * DAY)
    asyncio.run(residents.look())
    return residents


def test_a_start_opens_only_the_folders_that_ended_since_the_list_was_saved(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    an_attempt(root, 1, 0.0)
    a_start(root).ended.save()
    an_attempt(root, 2, 0.0)
    opened: list[str] = []
    marker = AttemptFolder.marker
    monkeypatch.setattr(AttemptFolder, "marker", lambda self: (opened.append(self.path.name), marker(self))[1])
    again = a_start(root)
    assert (opened, set(again.ended.names)) == (["2-1"], {"1-1", "2-1"})
    assert again.spool.last == 0


@pytest.mark.parametrize("content", [None, b"", b'{"1-1": 0', b"[]", b"\xff"])
def test_without_the_list_the_folders_are_read(root: Path, content: bytes | None) -> None:
    """As after a crash before it was written, or in the middle of a change to it."""
    an_attempt(root, 1, 0.0)
    an_attempt(root, 2, 0.0, reported=False)
    if content is not None:
        (root / "ended.json").write_bytes(content)
    again = a_start(root)
    assert set(again.ended.names) == {"1-1", "2-1"}
    assert [message.name for message in again.spool.unacknowledged()] == ["Exited"], "the one that was not reported"


def test_a_pipe_in_place_of_the_list_does_not_block_the_start(root: Path) -> None:
    os.mkfifo(root / "ended.json")
    an_attempt(root, 1, 0.0)
    again = a_start(root)
    again.ended.save()
    assert set(EndedAttempts(root).names) == set(again.ended.names) == {"1-1"}


def test_a_folder_that_is_made_again_under_an_old_name_is_watched(root: Path) -> None:
    """As with a new record, which numbers its jobs from 1."""
    folder = an_attempt(root, 1, 0.0)
    a_start(root).ended.save()
    for path in folder.path.iterdir():
        path.unlink()
    folder.path.rmdir()
    a_start(root).ended.save()
    assert make_folder(root / "1-1", folder.attempt) is not None
    assert list(a_start(root).present()) == [folder.attempt]


def test_only_old_and_reported_attempts_are_deleted(root: Path) -> None:
    old = an_attempt(root, 1, 0.0)
    kept = [
        an_attempt(root, 2, None, reported=False),
        an_attempt(root, 3, 29 * DAY),
        an_attempt(root, 4, None),
    ]
    ended = a_start(root).ended

    assert ended.prune(keep_days=30, now=31 * DAY) == 1

    assert not old.path.exists()
    assert all(folder.path.exists() for folder in kept)
    assert set(ended.names) == {"3-1", "4-1"}


def test_a_folder_that_cannot_be_deleted_stays_known(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    an_attempt(root, 1, 0.0)
    ended = a_start(root).ended
    monkeypatch.setattr("shutil.rmtree", lambda path, ignore_errors: None)
    ended.prune(keep_days=30, now=31 * DAY)
    assert set(ended.names) == {"1-1"}


def test_folders_are_listed_no_more_once_nothing_changes_although_the_clock_was_set_back(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    residents = a_start(root)
    now, listed = [100.0], []
    residents.monotonic = lambda: now[0]
    monkeypatch.setattr(residents_module, "folders_in", lambda root, without: listed.append(now[0]) or [])
    in_an_hour = (root.stat().st_mtime + 3600) * 1e9
    os.utime(root, ns=(int(in_an_hour), int(in_an_hour)))
    for now[0] in (100.0, 100.5, 101.5, 200.0):
        asyncio.run(residents.look())
    assert listed == [100.0, 100.5]
