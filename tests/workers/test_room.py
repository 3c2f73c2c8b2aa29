"""Why a host's folder of attempts takes no more of them."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from gpuq_workers.room import Room


def usual(**changes: Any) -> SimpleNamespace:
    found = {"f_flag": 0, "f_files": 1000, "f_favail": 500, "f_bfree": 10**6, "f_bavail": 10**6, "f_frsize": 4096}
    return SimpleNamespace(**{**found, **changes})


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"f_flag": os.ST_RDONLY}, "is read-only"),
        ({"f_favail": 0}, "no inode"),
        ({"f_bfree": 10, "f_bavail": 10}, "is full"),
    ],
)
def test_what_keeps_a_folder_from_taking_one_more_is_named_since_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, int], says: str
) -> None:
    clock = iter((100.0, 160.0, 999.0))
    room = Room(tmp_path, lambda: next(clock))
    found = usual()
    monkeypatch.setattr("os.statvfs", lambda _: found)
    assert room.no_starts() is None
    found = usual(**changes)
    for _ in range(2):
        cannot = room.no_starts()
        assert cannot is not None
        assert (says in cannot.why, str(tmp_path) in cannot.why, cannot.since_at) == (True, True, 100.0)
    found = usual()
    assert room.no_starts() is None
    found = usual(**changes)
    assert room.no_starts().since_at == 160.0  # type: ignore[union-attr]


def test_a_file_system_that_counts_no_inodes_has_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.statvfs", lambda _: usual(f_files=0, f_favail=0))
    assert Room(tmp_path).no_starts() is None


def test_a_folder_that_is_gone_or_another_users_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "attempts"
    cannot = Room(folder).no_starts()
    assert cannot is not None
    assert cannot.why == f"{folder} cannot be used: No such file or directory"
    folder.mkdir()
    assert Room(folder).no_starts() is None
    monkeypatch.setattr("os.access", lambda *_: False)
    cannot = Room(folder).no_starts()
    assert cannot is not None
    assert "cannot be written by the user" in cannot.why
