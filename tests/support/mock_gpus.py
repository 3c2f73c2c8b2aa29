"""Eight emulated GPUs: NVIDIA's mock of its driver library, and the emulator that gives them the load of emulated jobs.

Neither is part of this repository; `make demo-gpu` finds them in the same place.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from tests.support.site import wait_for
from workloads.demo.emulated import CONFIG, folder
from workloads.demo.gpuq import DemoFailed


def mock_folder() -> Path:
    """The folder of the library and its emulator. Skips the test where there is none."""
    try:
        return folder(os.environ)
    except DemoFailed as none:
        pytest.skip(str(none))


def mock_environment(source: Path, state: Path) -> dict[str, str]:
    """What lets a process find the mock, as eight H100s. What they show is in `state`/shown.yaml, which is read at each call."""
    shutil.copyfile(source / CONFIG, state / "config.yaml")
    return {
        "LD_LIBRARY_PATH": str(source),
        "MOCK_NVML_CONFIG": str(state / "config.yaml"),
        "MOCK_NVML_OVERRIDES": str(state / "shown.yaml"),
        "MOCK_NVML_OVERRIDES_TTL": "1ns",
    }


def emulated(percent: float, mib: int, seconds: float) -> dict[str, str]:
    """What the environment of a process has that takes this much of each of its GPUs, for so long."""
    return {"EMULATED_GPU": f"{percent},{mib}", "EMULATED_SECONDS": str(seconds)}


class MockGpus:
    """`with MockGpus() as gpus:` runs the emulator on eight H100s. `environ` is for the process that shall see them.

    The processes on GPUs in `hidden` are not shown, as under WSL 2; all else on them is.
    """

    def __init__(self) -> None:
        source = mock_folder()
        self.folder = Path(tempfile.mkdtemp(prefix="gq-gpus-"))
        self.environ = mock_environment(source, self.folder)
        self.hidden: set[int] = set()
        (self.folder / "crash").mkdir()
        (self.folder / "plans").mkdir()
        self._emulator = subprocess.Popen([sys.executable, "-S", str(source / "emulate.py"), str(self.folder)])
        self._over = threading.Event()
        self._shower = threading.Thread(target=self._show)

    def __enter__(self) -> MockGpus:
        self._shower.start()
        wait_for((self.folder / "shown.pids").exists, 20)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._shower.join()
        self._emulator.kill()
        self._emulator.wait()
        shutil.rmtree(self.folder)

    def plan(self, job: int, percent: float, mib: int, seconds: float) -> None:
        """What this job will take of each of its GPUs, and for how long; it waits until that is known."""
        whole = self.folder / "plans" / f"{job}.new"
        whole.write_text(json.dumps(emulated(percent, mib, seconds)))
        whole.replace(whole.with_suffix(""))

    def slowed(self) -> set[float]:
        """By how much the emulator slows those that are on GPUs now."""
        return set(json.loads((self.folder / "slow.json").read_text()).values())

    def fail(self, gpu: int, failure: str) -> None:
        """Break this GPU: its driver says so from now on."""
        (self.folder / "fail" / str(gpu)).write_text(failure)

    def crash(self, gpu: int) -> None:
        """Let the programs on this GPU end with an error."""
        (self.folder / "crash" / str(gpu)).touch()

    def _show(self) -> None:
        """Hand on what the emulator says, without the processes that are to be hidden."""
        before = ""
        while not self._over.wait(0.05):
            text = (self.folder / "overrides.yaml").read_text() if (self.folder / "overrides.yaml").exists() else ""
            pids = re.findall(r"pid: (\d+)", text)
            for gpu in self.hidden:
                text = re.sub(rf"(\n  {gpu}:\n(?:    .*\n)*?    processes:)\n(?:      .*\n)*", r"\1 []\n", text)
            if text != before:
                before = text
                self._write("shown.yaml", text)
                self._write("shown.pids", " ".join(pids))

    def _write(self, name: str, text: str) -> None:
        whole = self.folder / f"{name}.new"
        whole.write_text(text)
        whole.replace(self.folder / name)
