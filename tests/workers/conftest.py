"""Homes, orders and waiting for the tests of what runs on a host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gpuq_workers.attempts import AttemptFolder

from gpuq.adapters import process
from gpuq.home import Home
from gpuq.settings import Settings, Worker
from tests.support import patience
from tests.workers.twins import KEY

SHIM = Path(__file__).parents[2] / "workers" / "gpuq_workers" / "shim" / "main.py"


def quick_shim(folder: Path, changes: str = "") -> list[str]:
    """The command of a shim that looks for orders and at its clock every 0.03 s. Tests would wait most for its usual 0.5 s.

    `changes` is code that changes more of the module `shim`.
    """
    code = f"""
import sys
sys.path.append({str(SHIM.parents[2])!r})
from gpuq_workers.shim import main as shim
shim._IDLE_POLL_S = shim._ENDING_POLL_S = shim._LOOK_EVERY_S = 0.03
{changes}
sys.exit(shim.main(sys.argv[1:]))
"""
    return [sys.executable, "-I", "-S", "-c", code, str(folder)]


def wait_for(condition: Callable[[], Any], within_s: float = patience.WITHIN_S, what: str = "condition") -> Any:
    """The first true value of `condition`; fails after the deadline."""
    return patience.wait_for(condition, within_s, lambda: what)


class Attempt:
    """An attempt's folder and the shim on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shim: subprocess.Popen[bytes] | None = None

    def order(self, *command: str, **changes: Any) -> Attempt:
        values: dict[str, Any] = {
            "job": 1,
            "attempt": 1,
            "command": list(command),
            "cwd": "/",
            "env": {"PATH": os.environ["PATH"]},
            "devices": ["cpu-0"],
            "cores": None,
            "time_limit_s": None,
            "grace_s": 0.3,
            "log_limit_bytes": 1 << 20,
            "shim": ["boot", 1, 1],
        }
        (self.folder / "order.json").write_text(json.dumps({**values, **changes}))
        return self

    def start(self) -> Attempt:
        self.shim = subprocess.Popen(quick_shim(self.folder), start_new_session=True)
        return self

    def run(self, *command: str, **changes: Any) -> dict[str, Any]:
        """The exit record of a command that ran under the shim."""
        self.order(*command, **changes).start()
        return self.end()

    def end(self, within_s: float = patience.WITHIN_S) -> dict[str, Any]:
        assert self.shim is not None
        assert self.shim.wait(within_s) == 0
        return self.read("exit.json")

    def started(self) -> dict[str, Any]:
        wait_for((self.folder / "started.json").exists, what="started.json")
        return self.read("started.json")

    def read(self, name: str) -> dict[str, Any]:
        values: dict[str, Any] = json.loads((self.folder / name).read_text())
        return values

    def log(self) -> bytes:
        return (self.folder / "output.log").read_bytes()

    def stop(self, reason: str = "cancelled", *, save: bool = False) -> None:
        aside = self.folder / "stop.json.tmp"  # whole or not at all, as the worker writes it
        aside.write_text(json.dumps({"reason": reason, "at": time.time(), "save": save}))
        aside.rename(self.folder / "stop.json")


@pytest.fixture
def counter(tmp_path: Path) -> Path:
    """Where a job's steps are counted; nothing is there yet."""
    return tmp_path / "progress"


@pytest.fixture
def attempt(tmp_path: Path) -> Iterator[Attempt]:
    folder = tmp_path / "1-1"
    folder.mkdir()
    made = Attempt(folder)
    yield made
    if made.shim is not None and made.shim.poll() is None:
        identity = process.identify(made.shim.pid)
        assert identity is not None
        process.kill_tree(identity)
        made.shim.wait()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    home = Home(tmp_path / "home")
    home.create()
    home.host_key_file.write_text(KEY)
    worker = Worker(host="alpha", grace_s=0.3, sample_every_s=0.05, hook=False)
    return Settings(home=home, redis_url=None, database_url="sqlite://", worker=worker)


def python(code: str) -> tuple[str, str, str]:
    return (sys.executable, "-c", code)


def gone(pid: int) -> bool:
    known = process.identify(pid)
    return known is None or not process.is_alive(known)


def shim_lives(folder: AttemptFolder) -> bool:
    """Whether a process is left that will write the end."""
    shim = folder.shim()
    return shim is not None and process.is_alive(shim)
