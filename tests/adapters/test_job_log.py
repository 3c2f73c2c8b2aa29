"""An attempt's output in several files is one stream of bytes."""

from __future__ import annotations

from pathlib import Path

from gpuq.adapters.job_log import Chunk, read


def test_segments_in_the_order_of_their_offsets_not_their_names(tmp_path: Path) -> None:
    folder = tmp_path / "1-1"
    folder.mkdir()
    (folder / "output.log").write_bytes(b"0123456789")
    for start in (10, 100, 20, 9999999999):
        (folder / f"output.log.{start}").write_bytes(b"x" * 10)
    (folder / "output.log.20.tmp").write_bytes(b"never")
    assert read(tmp_path, 1, 1, -4, 100) == Chunk(b"xxxx", 10_000_000_009)
    assert read(tmp_path, 1, 1, 25, 100) == Chunk(b"xxxxx", 30)
    assert read(tmp_path, 1, 1, 30, 100) == Chunk(b"x" * 10, 110, dropped=70)


def test_an_attempt_without_a_log_differs_from_one_without_output(tmp_path: Path) -> None:
    assert read(tmp_path, 1, 1, 0, 100) is None
    (tmp_path / "1-1").mkdir()
    assert read(tmp_path, 1, 1, 0, 100) is None
    (tmp_path / "1-1" / "output.log").touch()
    assert read(tmp_path, 1, 1, 0, 100) == read(tmp_path, 1, 1, -100, 100) == Chunk(b"", 0)
