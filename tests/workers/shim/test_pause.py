"""Pauses by the freezer, on files in place of the kernel's; those by signals, with real processes, are in `test_blink`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from gpuq_workers.shim import pause
from gpuq_workers.shim.pause import Frozen


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
