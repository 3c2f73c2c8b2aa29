"""The files of a job, brought here."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuq.cli import results
from gpuq.errors import BadInput


def test_a_folder_without_room_is_named_and_nothing_is_left_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What fails is the write to an open file, and the system does not name that one."""

    class Client:
        def stream(self, _path: str, **_query: Any) -> Iterator[bytes]:
            yield b"x"

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(results, "receive", full)
    with pytest.raises(OSError, match="No space left") as failed:
        results.fetch(Client(), 6, [], to=tmp_path / "here", attempt=None, force=False)  # type: ignore[arg-type]
    assert failed.value.filename == str(tmp_path / "here")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_was_removed_is_named_before_anything_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(BadInput, match="the folder you are in no longer exists"):
        results.fetch(object(), 6)  # type: ignore[arg-type]
