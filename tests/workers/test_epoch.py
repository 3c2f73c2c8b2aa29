"""The highest epoch that a host has seen: kept over restarts, one for all of its processes."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from gpuq_workers.epoch import SeenEpoch


def test_a_lower_epoch_is_not_admitted_also_after_a_restart(tmp_path: Path) -> None:
    seen = SeenEpoch(tmp_path / "epoch")
    assert [seen.admits(epoch) for epoch in (0, 3, 3, 2, 7)] == [True, True, True, False, True]
    again = SeenEpoch(tmp_path / "epoch")
    assert (again.admits(6), again.highest()) == (False, 7)


def test_an_epoch_that_another_process_has_seen_counts(tmp_path: Path) -> None:
    orders, acknowledgements = SeenEpoch(tmp_path / "epoch"), SeenEpoch(tmp_path / "epoch")
    assert orders.admits(4)
    assert acknowledgements.admits(5)
    assert not orders.admits(4)


@pytest.mark.parametrize("content", [b"", b"x", b"-5", b"\xff" * 100, b"9" * 30])
def test_a_damaged_file_counts_as_none_and_is_mended(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "epoch").write_bytes(content)
    assert SeenEpoch(tmp_path / "epoch").admits(5)
    assert SeenEpoch(tmp_path / "epoch").highest() == 5


def test_an_epoch_that_cannot_be_stored_holds_for_this_process(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "epoch").mkdir()
    seen = SeenEpoch(tmp_path / "epoch")
    with caplog.at_level(logging.WARNING):
        assert [seen.admits(5), seen.admits(4)] == [True, False]
    assert "cannot be kept up to date" in caplog.text
