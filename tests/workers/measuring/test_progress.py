"""The reader of the step counter: never half a step, nothing of a file that is none of the hook's, and why there is no count."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from gpuq_workers.measuring.progress import HOOK_FOLDER, Progress, hook_environment, read_counter, read_progress


def test_an_overwritten_counter_file_is_reported_as_such(counter: Path):
    counter.write_bytes(b"something else")
    assert "overwritten" in read_counter(counter)[1]
    counter.unlink()
    counter.symlink_to("/etc/hostname")
    assert read_counter(counter)[1]


@pytest.mark.parametrize("raw", [b"", b"GPUQ", b"x" * 16384, b"GPUQPRG1" + b"\xff" * 16376, b"GPUQPRG1" + b"\0" * 200])
def test_a_file_of_another_format_gives_no_progress(counter: Path, raw: bytes):
    counter.write_bytes(raw)
    assert read_progress(counter) is None


def test_only_a_regular_file_is_read(counter: Path, tmp_path: Path):
    assert read_progress(counter) is None
    os.mkfifo(counter)
    assert read_progress(counter) is None
    (tmp_path / "link").symlink_to("/etc/hostname")
    assert read_progress(tmp_path / "link") is None


def test_a_concurrent_reader_never_sees_a_torn_slot(counter: Path):
    """A writer in full flight: at every look, the time of the last step belongs to the count."""
    code = "import gpuq_progress as g, sys\ng.step(); print(flush=True)\nwhile True: g.step()"
    environ = {**os.environ, **hook_environment({}, counter)}
    seen: list[Progress | None] = []
    with subprocess.Popen([sys.executable, "-c", code], env=environ, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            seen.append(read_progress(counter))
            if (seen[-1].steps if seen[-1] else 0) > 100_000:
                break
        writer.kill()
    known = [progress for progress in seen if progress is not None]
    assert len(known) == len(seen) > 100
    assert known == sorted(known, key=lambda progress: (progress.steps, progress.last_step_at))
    assert known[-1].steps > 100_000


def test_the_hook_precedes_the_users_pythonpath():
    found = hook_environment({"PYTHONPATH": "/theirs"}, Path("/somewhere/progress"))
    assert found == {"PYTHONPATH": f"{HOOK_FOLDER}:/theirs", "GPUQ_PROGRESS": "/somewhere/progress"}
