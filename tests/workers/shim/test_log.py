"""The bounded log: head and tail stay, nothing else, whatever a job prints and however full the disk is."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest
from gpuq_workers.shim.log import BoundedLog

from tests.workers.conftest import SHIM, Attempt, python, wait_for


def stored(folder: Path) -> dict[int, bytes]:
    """What is kept, by the offset of its first byte."""
    parts = {}
    for path in folder.glob("output.log*"):
        suffix = path.name.removeprefix("output.log")
        parts[int(suffix[1:]) if suffix else 0] = path.read_bytes()
    return dict(sorted(parts.items()))


def test_short_output_is_kept_whole(tmp_path: Path) -> None:
    log = BoundedLog(str(tmp_path), 1000)
    log.write(b"one\n")
    log.write(b"two\xff\n")
    log.close()
    assert stored(tmp_path) == {0: b"one\ntwo\xff\n"}


def last_part(folder: Path) -> bytes:
    try:
        return [b"", *stored(folder).values()][-1]
    except FileNotFoundError:
        return b""  # a segment was deleted while we looked


@pytest.mark.parametrize("chunk", [1, 7, 1000, 100_000])
def test_long_output_keeps_its_head_and_its_latest_part(tmp_path: Path, chunk: int) -> None:
    everything = b"".join(b"%07d\n" % line for line in range(2000))
    log = BoundedLog(str(tmp_path), 4096)
    for start in range(0, len(everything), chunk):
        log.write(everything[start : start + chunk])
    log.close()
    parts = stored(tmp_path)
    assert parts[0] == everything[:2048]
    assert all(everything[offset : offset + len(part)] == part for offset, part in parts.items())
    tail = b"".join(part for offset, part in parts.items() if offset)
    assert everything.endswith(tail)
    assert 2048 - 256 <= len(tail) <= 2048


def test_a_full_disk_loses_output_and_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Output comes back after the gap under its true offset."""
    now = [0.0]
    log = BoundedLog(str(tmp_path), 10_000, monotonic=lambda: now[0])
    log.write(b"a" * 10)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4, before[1]))
    try:
        log.write(b"b" * 20)
        log.write(b"c" * 30)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    log.write(b"d")
    now[0] += 10
    log.write(b"e" * 5)
    log.close()
    assert log.lost == 51
    assert log.fault == "File too large"
    assert stored(tmp_path) == {0: b"a" * 10, 61: b"e" * 5}


def test_the_job_continues_when_its_log_cannot_be_written(attempt: Attempt) -> None:
    done = attempt.folder.parent / "done"
    attempt.order(*python(f"print('x' * 300_000); open({str(done)!r}, 'w').close()"))
    limited = (
        "import os, resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (8192, -1))\n"
        "os.execv(sys.executable, sys.argv[1:])"
    )
    # -B: under this limit Python would cut its cached byte code off, for every later start too.
    shim = [sys.executable, "-B", "-I", "-S", str(SHIM), str(attempt.folder)]
    subprocess.run([sys.executable, "-c", limited, *shim], check=True)
    end = attempt.read("exit.json")
    assert (end["ending"], end["exit_code"]) == ("exited", 0)
    assert "bytes of output could not be written: File too large" in end["reason"]
    assert done.exists()
    assert len(attempt.log()) == 8192


def test_a_giant_line_passes_through_in_little_memory(attempt: Attempt) -> None:
    """200 MB without a newline; the log stays within its limit and the shim stays small."""
    code = (
        "import sys, time\nb = b'z' * 1_000_000\nfor _ in range(200): sys.stdout.buffer.write(b)\n"
        "sys.stdout.buffer.write(b'END'); sys.stdout.flush(); time.sleep(60)"
    )
    attempt.order(*python(code), log_limit_bytes=1_000_000).start()
    assert attempt.shim is not None
    wait_for(lambda: last_part(attempt.folder).endswith(b"END"), 20, "the last bytes")
    peak_kib = int(Path(f"/proc/{attempt.shim.pid}/status").read_text().split("VmHWM:")[1].split()[0])
    parts = stored(attempt.folder)
    assert sum(map(len, parts.values())) <= 1_000_000
    assert max(parts) + len(parts[max(parts)]) == 200_000_003
    assert peak_kib < 24_000


def test_bytes_that_are_not_text_are_kept(attempt: Attempt) -> None:
    attempt.run(*python("import sys; sys.stdout.buffer.write(bytes(range(256))); sys.stderr.write('err')"))
    assert attempt.log() == bytes(range(256)) + b"err" or attempt.log() == b"err" + bytes(range(256))
