"""What `gpuq split` says where the machine cannot do it: a sentence and the fix."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gpuq.errors import Failure
from gpuq.split import __main__ as command
from gpuq.split import decide
from gpuq.split.memory import Memory
from tests.split.test_launch import written

DEVICE = "[[devices]]\ncores = [0]"


def test_without_the_extra_the_command_names_what_to_install(tmp_path):
    (tmp_path / "pyopencl.py").write_text("raise ImportError('no pyopencl here')")
    (tmp_path / "llvmlite.py").write_text("raise ImportError('no llvmlite here')")
    environment = {**os.environ, "GPUQ_HOME": str(tmp_path / "home"), "PYTHONPATH": str(tmp_path)}
    for verb in ("check", "run"):
        done = subprocess.run(
            [sys.executable, "-m", "gpuq.split", verb, written(tmp_path, device=DEVICE)],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )
        assert done.returncode == 1
        assert "pip install 'gpuq-daemon[split]'" in done.stderr
        assert "Traceback" not in done.stderr


def test_an_output_that_cannot_be_written_is_one_sentence_before_the_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("GPUQ_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(decide, "run", lambda *_, **__: pytest.fail("it was run"))
    path = written(tmp_path, 'size = 256\noutput = "missing/out.npy"', DEVICE)
    assert command.main(["run", str(path)]) == 1
    assert capsys.readouterr().err.startswith(f"gpuq: {tmp_path}/missing/out.npy: No such file or directory.")


def test_buffers_that_the_shared_memory_has_no_room_for_are_one_sentence():
    memory = Memory()
    try:
        with pytest.raises(Failure, match="has no room for a buffer of") as caught:
            memory.place(np.broadcast_to(np.uint8(0), (1 << 50,)))
    finally:
        memory.end()
    assert "--shm-size" in caught.value.fix


def test_buffers_have_no_name_that_a_killed_command_would_leave():
    memory = Memory()
    buffer = memory.place(np.arange(7))
    assert Path(f"/proc/self/fd/{buffer}").readlink().name.endswith(" (deleted)")
    assert np.array_equal(memory.inside(buffer).view(int), np.arange(7))
    memory.end()
