"""Attempts' folders are found by their names."""

from __future__ import annotations

from pathlib import Path

from gpuq_workers.attempts import folders_in


def test_folders_are_found_by_their_names_and_others_are_passed_over(tmp_path: Path) -> None:
    for name in ("1-1", "12-3", "13-1", "12", "12-x", "a-1", ".12-4"):
        (tmp_path / name).mkdir()
    assert sorted(folder.attempt for folder in folders_in(tmp_path, without={"13-1"})) == [(1, 1), (12, 3)]
    assert list(folders_in(tmp_path / "missing")) == []
