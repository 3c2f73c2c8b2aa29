"""What a look at eight devices costs: CPU seconds of the sampler's thread, at one look a second, beside those that a bare
interpreter takes to start, in turns.

CPU devices with two residents each (a shim's stand-in and a process under it); and NVIDIA GPUs through the real bindings over
the tests' stand-in driver, where it and a C compiler are there. It keeps its state in memory, so that a call takes 4 to 30
microseconds with the bindings; a real driver's were measured at 2 to 15. Each backend runs in a process of its own, looks once
a second, and throws its first looks away.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from benchmarks.site import ROOT
from benchmarks.table import Row

DEVICES, RESIDENTS, LOOKS = 8, 16, 15
_REACH = 0.2
_FIRST_LOOKS = 3
_STUB = ROOT / "tests" / "adapters" / "nvml_stub" / "nvml_stub.c"
_TREE = "import subprocess; subprocess.Popen(['sleep', '600']).wait()"


def run() -> list[Row]:
    """Percent of one core, per backend."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wanted = {"cpu": dict(os.environ), "nvml": _stub_environment(folder)}
        # One after the other: for CPU devices the other one's work would be foreign load, which takes more reads.
        found = {
            backend: json.loads(_output_of(_start(backend, env, folder)))
            for backend, env in wanted.items()
            if env is not None
        }
    costs, starts = ({backend: both[i] for backend, both in found.items()} for i in (0, 1))
    rows = [
        Row(
            f"a look at {DEVICES} {backend} devices with {RESIDENTS} residents / a bare interpreter's start",
            median(costs[backend]) / median(starts[backend]),
            "times",
            _REACH,
            note=f"at one look a second {100 * median(costs[backend]):.2f}% of a core, "
            f"worst look {1000 * max(costs[backend]):.1f} ms; "
            f"a start {1000 * median(starts[backend]):.1f} ms",
        )
        for backend in costs
    ]
    if "nvml" not in costs:
        rows.append(Row("  nvml", None, "times", note="no C compiler, or no stand-in driver in this tree"))
    return rows


def _stub_environment(folder: Path) -> dict[str, str] | None:
    """Builds the stand-in driver; None where that cannot be."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or not _STUB.exists():
        return None
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", folder / "libnvidia-ml.so.1", _STUB], check=True)
    return {
        **os.environ,
        "LD_LIBRARY_PATH": str(folder),
        "NVML_STUB_STATE": str(folder / "state"),
        "NVML_STUB_ONCE": "1",
    }


def _start(backend: str, env: dict[str, str], folder: Path) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "benchmarks.sampler", backend, str(folder)]
    return subprocess.Popen(argv, env=env, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def _output_of(process: subprocess.Popen[str]) -> str:
    output = process.communicate(timeout=120)[0]
    if process.returncode:
        raise RuntimeError(f"{process.args} ended with {process.returncode}")
    return output


# --- in a process of its own ----------------------------------------------------------------------------------------


def look_once_a_second(backend_name: str, folder: Path) -> tuple[list[float], list[float]]:
    """CPU seconds of each look, and of a bare interpreter that starts after it."""
    from gpuq_workers.measuring.sample import Sampler, WatchedResident

    from gpuq.core.state.attempt import AttemptId
    from gpuq.core.state.job import JobId

    gc.freeze()  # as the worker service does, so that no collection looks through all modules
    with _residents() as roots:
        if backend_name == "nvml":
            _write_state(folder / "state", roots)
        backend = _open(backend_name)
        devices = backend.devices()
        watched = []
        for number, root in enumerate(roots):
            home = folder / f"{backend_name}-{number}"
            home.mkdir()
            device = devices[number % len(devices)].id
            watched.append(WatchedResident(AttemptId(JobId(number + 1), 1), root, (device,), home, time.time()))
        sampler = Sampler(backend)
        seconds, starts = [], []
        for _ in range(LOOKS):
            began = time.thread_time()
            sampler.sample(time.time(), watched)
            seconds.append(time.thread_time() - began)
            starts.append(_cpu_seconds_of_a_start())
            time.sleep(1)
    return seconds[_FIRST_LOOKS:], starts[_FIRST_LOOKS:]


def _cpu_seconds_of_a_start() -> float:
    pid = os.posix_spawn(sys.executable, [sys.executable, "-c", "pass"], os.environ)
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise RuntimeError(f"{sys.executable} does not start")
    return usage.ru_utime + usage.ru_stime


def _open(backend_name: str):  # type: ignore[no-untyped-def]  # a Backend; its module is imported only here
    from gpuq.settings import load

    settings = load({"GPUQ_HOME": "/nonexistent"})
    if backend_name == "nvml":
        from gpuq.adapters.nvml import backend as nvml

        return nvml.open_backend(settings)
    from gpuq.adapters.cpu.backend import CpuBackend
    from gpuq.core.state.device import Device, DeviceId, HostId

    cores = sorted(os.sched_getaffinity(0))
    # More devices than this machine may have cores: a look costs the same when devices share some.
    made = [Device(DeviceId(f"cpu{i}"), HostId("host"), "cpu", "cpu-1", 2**33) for i in range(DEVICES)]
    return CpuBackend({device: (cores[i % len(cores)],) for i, device in enumerate(made)}, 2**30)


@contextmanager
def _residents() -> Iterator[list[int]]:
    trees = [subprocess.Popen([sys.executable, "-S", "-c", _TREE], start_new_session=True) for _ in range(RESIDENTS)]
    try:
        time.sleep(2)
        yield [tree.pid for tree in trees]
    finally:
        for tree in trees:
            os.killpg(tree.pid, 9)
            tree.wait()


def _write_state(path: Path, roots: list[int]) -> None:
    lines = [f"count {DEVICES}"]
    for number, root in enumerate(roots):
        child = int(Path(f"/proc/{root}/task/{root}/children").read_text().split()[0])
        lines += [f"device {number % DEVICES} compute {child} {2**30}"]
    for index in range(DEVICES):
        lines += [f"device {index} used {2**31}", f"device {index} utilization 60", f"device {index} gpm 1 2 3"]
        lines += [f"device {index} {fact} 50000" for fact in ("power", "energy", "temperature", "throttling")]
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    print(json.dumps(look_once_a_second(sys.argv[1], Path(sys.argv[2]))))
