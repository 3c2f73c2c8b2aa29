"""A stand-in NVIDIA driver, compiled from C, and a way to run lines against it.

Each test runs a few lines in a process of its own, since a driver library is loaded once per process. The lines see a
`backend`, a `state(...)` that sets what the driver says, and real child processes for residents.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

STUB = Path(__file__).parent / "nvml_stub" / "nvml_stub.c"
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
GIB = 2**30
LOST, UNKNOWN_ERROR, NOT_SUPPORTED, DRIVER_NOT_LOADED = 15, 999, 3, 9
NO_PERMISSION, INSUFFICIENT_SIZE, FUNCTION_NOT_FOUND = 4, 7, 13

PRELUDE = """
import json, logging, os, subprocess, sys
from dataclasses import asdict, replace
from gpuq.adapters import nvml
from gpuq.adapters.devices import Resident
from gpuq.core.attempt import AttemptId
from gpuq.errors import GpuqError
from gpuq.settings import Devices, Worker, load

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
settings = replace(load({"GPUQ_HOME": "/nowhere"}), worker=Worker(host="here"))
A, B = AttemptId(1, 1), AttemptId(2, 1)
NOW = 1000.0

def state(*lines):
    open(os.environ["NVML_STUB_STATE"], "w").write("\\n".join(lines) + "\\n")

def tree():
    "A shim's stand-in and the process under it, until the end of the test."
    code = "import subprocess, sys; c = subprocess.Popen(['sleep', '60']); print(c.pid, flush=True); c.wait()"
    root = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)
    roots.append(root)
    return root.pid, int(root.stdout.readline())

def mps_server(command="nvidia-cuda-mps-server"):
    "A process of that name, which has begun: just after a fork it still has another."
    pipe = subprocess.PIPE
    shell = [command, "-c", "echo begun; read the_end"]
    roots.append(subprocess.Popen(shell, executable="/bin/sh", stdin=pipe, stdout=pipe, start_new_session=True))
    roots[-1].stdout.readline()
    return roots[-1].pid

def look(*residents, now=NOW):
    seen = backend.read(now, residents)
    readings = {device: [r.used_memory, r.utilization_pct, r.foreign_memory, r.foreign_utilization_pct]
                for device, r in seen.readings.items()}
    return readings, {str(a): [u.memory_bytes, u.utilization_pct] for a, u in seen.usage.items()}

roots = []
result = None
"""
POSTLUDE = """
for root in roots:
    os.killpg(root.pid, 9)
print(json.dumps(result))
"""


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if COMPILER is None:
        pytest.skip("no C compiler (cc, gcc or clang) to build the stand-in driver with")
    folder = tmp_path_factory.mktemp("nvml")
    target = folder / "libnvidia-ml.so.1"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-Werror", "-Wall", "-o", target, STUB], check=True)
    return folder


class Ran:
    """What a driver process returned, logged, and which driver functions it called."""

    def __init__(self, done: subprocess.CompletedProcess[str], calls: Path) -> None:
        assert done.returncode == 0, done.stderr
        self.result: Any = json.loads(done.stdout.splitlines()[-1])
        self.log = done.stderr
        self.calls = calls.read_text().split() if calls.exists() else []


@pytest.fixture
def run(library: Path, tmp_path: Path) -> Callable[..., Ran]:
    """Runs lines against the stand-in, whose first state is `start`."""

    def runner(lines: str, start: str = "", opened: bool = True) -> Ran:
        (tmp_path / "state").write_text(start)
        environ = {
            **os.environ,
            "LD_LIBRARY_PATH": str(library),
            "NVML_STUB_STATE": str(tmp_path / "state"),
            "NVML_STUB_LOG": str(tmp_path / "calls"),
        }
        opening = "backend = nvml.open_backend(settings)\n" if opened else ""
        code = PRELUDE + opening + lines + POSTLUDE
        done = subprocess.run(
            [sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=60, check=False
        )
        return Ran(done, tmp_path / "calls")

    return runner
