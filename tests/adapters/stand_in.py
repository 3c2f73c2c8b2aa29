"""A stand-in NVIDIA driver, compiled from C, and a way to run lines against it and against NVIDIA's mock of its library.

Each test runs a few lines in a process of its own, since a driver library is loaded once per process. The lines see a
`backend` and real child processes for residents. What the driver says is set by `state(...)` in the words of nvml_stub.c; for
lines that run against both drivers, by `show({GPU number: {...}})`, and `GPUS` has the ids:

    used                  MiB                 compute, graphics     {pid: (MiB, percent)}
    busy, bus             percent             power, temperature    watts, degrees
    clocks                names of THROTTLING, why clocks are lowered
    mode                  its compute mode, of MODES
    lost                  True                xid                   this error has just come
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.forked import Forks
from tests.support.mock_gpus import mock_environment, mock_folder

STUB = Path(__file__).parent / "nvml_stub" / "nvml_stub.c"
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
GIB = 2**30
LOST, UNKNOWN_ERROR, NOT_SUPPORTED, DRIVER_NOT_LOADED = 15, 999, 3, 9
NO_PERMISSION, NOT_FOUND, INSUFFICIENT_SIZE, FUNCTION_NOT_FOUND = 4, 6, 7, 13

PRELUDE = """
import json, logging, os, subprocess, sys
from dataclasses import asdict, replace
from gpuq.adapters.nvml import backend as nvml
from gpuq.adapters.devices import ResidentProcess
from gpuq.core.state.attempt import AttemptId
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
SHOW_BY_STAND_IN = """
GPUS = ["GPU-0", "GPU-1"]
CLOCKS = {"power_cap": 4, "thermal_software": 32}
MODES = ["default", "exclusive_thread", "prohibited", "exclusive_process"]
shows = 0

def show(gpus):
    global shows
    shows += 1
    lines, sampled_at = [], int(NOW * 1e6) - 1000 + shows
    for number, gpu in gpus.items():
        gpu_ = f"device {number}"
        lines += [f"{gpu_} used {gpu.get('used', 0) * 2**20}", f"{gpu_} utilization {gpu.get('busy', 0)}"]
        lines += [f"{gpu_} bus {gpu.get('bus', 0)}", f"{gpu_} throttling {sum(CLOCKS[why] for why in gpu.get('clocks', ()))}"]
        lines += [f"{gpu_} power {gpu['power'] * 1000}"] if "power" in gpu else []
        lines += [f"{gpu_} temperature {gpu['temperature']}"] if "temperature" in gpu else []
        for kind in ("compute", "graphics"):
            for pid, (mib, percent) in gpu.get(kind, {}).items():
                lines += [f"{gpu_} {kind} {pid} {mib * 2**20}", f"{gpu_} sample {pid} {sampled_at} {percent}"]
        if gpu.get("lost"):
            lines.append(f"fail {number} * 15")
        if "mode" in gpu:
            lines.append(f"{gpu_} mode {MODES.index(gpu['mode'])}")
        if "xid" in gpu:
            lines.append(f"event {shows} {number} {gpu['xid']} -1")
    state(*lines)
"""
SHOW_BY_MOCK = """
GPUS = [f"GPU-01000100-0000-0000-0000-{number:012}" for number in range(8)]
CLOCKS = {"power_cap": "sw_power_cap", "thermal_software": "sw_thermal_slowdown"}

def show(gpus):
    devices = {}
    for number, gpu in gpus.items():
        devices[number] = shown = {
            "memory": {"used_bytes": gpu.get("used", 0) * 2**20},
            "utilization": {"gpu": gpu.get("busy", 0), "memory": gpu.get("bus", 0)},
            "clocks_throttle_reasons": {CLOCKS[why]: True for why in gpu.get("clocks", ())},
            "processes": [
                {"pid": pid, "type": kind[0].upper(), "name": "python", "used_memory_mib": mib, "sm_util": percent}
                for kind in ("compute", "graphics") for pid, (mib, percent) in gpu.get(kind, {}).items()
            ],
        }
        if "power" in gpu:
            shown["power"] = {"current_draw_mw": gpu["power"] * 1000}
        if "temperature" in gpu:
            shown["thermal"] = {"temperature_gpu_c": gpu["temperature"]}
        if gpu.get("lost"):
            shown["failure"] = {"mode": "lost"}
        if "mode" in gpu:
            shown["compute_mode"] = gpu["mode"]
        if "xid" in gpu:
            shown["failure"] = {"mode": "ecc_uncorrectable", "xid": {"code": gpu["xid"]}}
    open(os.environ["MOCK_NVML_OVERRIDES"], "w").write(json.dumps({"devices": devices}))  # JSON is YAML
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

    def __init__(self, done: subprocess.CompletedProcess[bytes], calls: Path) -> None:
        self.log = done.stderr.decode()
        assert done.returncode == 0, self.log
        self.result: Any = json.loads(done.stdout.splitlines()[-1])
        self.calls = calls.read_text().split() if calls.exists() else []


@cache
def _with_driver(folder: str) -> Forks:
    """Processes that find the driver library of this folder. Each loads its own copy."""
    return Forks("gpuq.adapters.nvml.backend", "gpuq.settings", env={"LD_LIBRARY_PATH": folder})


def _runner(prelude: str, folder: Path, environ: dict[str, str]) -> Callable[..., Ran]:
    def runner(lines: str, start: str = "", opened: bool = True) -> Ran:
        (folder / "state").write_text(start)
        opening = "backend = nvml.open_backend(settings)\n" if opened else ""
        code = prelude + opening + lines + POSTLUDE
        env = {**os.environ, **environ}
        if "MOCK_NVML_CONFIG" in environ:
            # NVIDIA's mock is written in Go, which does not survive a fork: an interpreter of its own.
            done = subprocess.run([sys.executable, "-c", code], env=env, cwd=folder, capture_output=True, check=False)
        else:
            done = _with_driver(environ["LD_LIBRARY_PATH"]).run(code, ["-c"], env=env, cwd=folder)
        return Ran(done, folder / "calls")

    return runner


def _stand_in(library: Path, folder: Path) -> dict[str, str]:
    return {
        "LD_LIBRARY_PATH": str(library),
        "NVML_STUB_STATE": str(folder / "state"),
        "NVML_STUB_LOG": str(folder / "calls"),
    }


@pytest.fixture
def run(library: Path, tmp_path: Path) -> Callable[..., Ran]:
    """Runs lines against the stand-in, whose first state is `start`."""
    return _runner(PRELUDE, tmp_path, _stand_in(library, tmp_path))


@pytest.fixture(params=["stand-in", "NVIDIA's mock"])
def run_on_both(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Ran]:
    """Runs lines against each of the two drivers; both start idle."""
    if request.param == "stand-in":
        return _runner(PRELUDE + SHOW_BY_STAND_IN, tmp_path, _stand_in(request.getfixturevalue("library"), tmp_path))
    return _runner(PRELUDE + SHOW_BY_MOCK, tmp_path, mock_environment(mock_folder(), tmp_path))
