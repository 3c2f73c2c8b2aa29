"""A script under the hook as a job is: its folder first on PYTHONPATH, GPUQ_PROGRESS naming the counter's file."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from gpuq_workers.measuring.progress import hook_environment, read_progress

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path, counter: Path) -> Run:
    """Runs a script as a job; `path` are further folders on its PYTHONPATH."""

    def runner(
        code: str, *path: Path, counted: bool = True, python: str = sys.executable, flags: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        script = tmp_path / "train.py"
        script.write_text(textwrap.dedent(code))
        environ = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "GPUQ_PROGRESS")}
        if path:
            environ["PYTHONPATH"] = os.pathsep.join(map(str, path))
        environ |= hook_environment(environ, counter)
        if not counted:
            del environ["GPUQ_PROGRESS"]
        return subprocess.run(
            [python, *flags, script], env=environ, capture_output=True, text=True, check=True, timeout=90, cwd=tmp_path
        )

    return runner


def steps(counter: Path) -> int | None:
    progress = read_progress(counter)
    return None if progress is None else progress.steps


def library(folder: Path, module: str, source: str) -> Path:
    """A folder for PYTHONPATH that has this module, in packages that are empty else."""
    package = folder / "lib"
    for part in module.split(".")[:-1]:
        package /= part
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("")
    (package / f"{module.rpartition('.')[2]}.py").write_text(source)
    return folder / "lib"


def base_python() -> str:
    """The interpreter that this environment was made from: a virtual environment, active or not, has no user's folder."""
    return str(Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}")


def find_python(name: str) -> str | None:
    """An interpreter on the path that works, or one that pyenv has installed."""
    installed = Path.home().glob(f".pyenv/versions/*/bin/{name}")
    for candidate in filter(None, (shutil.which(name), *map(str, installed))):
        if subprocess.run([candidate, "-c", ""], capture_output=True, check=False).returncode == 0:
            return candidate
    return None
