"""Attempts' folders: those of attempts that ended and were reported long ago are deleted."""

from __future__ import annotations

from pathlib import Path

from gpuq_workers.attempts import AttemptFolder, Marker, make_folder, prune

from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.job import JobId

DAY = 86_400.0


def an_attempt(root: Path, job: int, ended_at: float | None, *, reported: bool) -> AttemptFolder:
    attempt = AttemptId(JobId(job), 1)
    folder = make_folder(root / f"{job}-1", attempt)
    assert folder is not None
    if ended_at is not None:
        folder.close_unstarted("a test", ended_at)
    folder.mark(Marker(started=1, exited=2 if reported else None))
    return folder


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
