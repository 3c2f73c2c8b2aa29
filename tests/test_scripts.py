"""Shell scripts, those that come with gpuq and those that it writes, as ShellCheck sees them."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gpuq.api.hosts.joining import command
from gpuq.pools.slurm_job import script

ROOT = Path(__file__).resolve().parents[1]
SHELLCHECK = shutil.which("shellcheck")
_SHELL = re.compile(rb"#! ?(/usr)?/bin/(env )?(ba|da)?sh\b")


def tracked() -> list[Path]:
    """The shell scripts among the files of the repository, by their first line."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.split(b"\0")
    paths = [ROOT / name.decode() for name in names if name]
    return [path for path in paths if path.is_file() and _SHELL.match(path.read_bytes()[:64])]


def written() -> dict[str, str]:
    """What gpuq writes: the scripts of its Debian packages, what loads modules, and a pilot's batch script."""
    spec = importlib.util.spec_from_file_location("build", ROOT / ".ci/packages/build.py")
    assert spec is not None
    assert spec.loader is not None
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    environment = (ROOT / "workers/gpuq_workers/hook/gpuq_environment.py").read_text()
    modules = re.search(r'_LOAD_MODULES = r"""\n(.*?)"""', environment, re.DOTALL)
    assert modules is not None
    return {
        **build.scripts(),
        "modules": f"#!/bin/bash\n# shellcheck disable=SC1090\n{modules[1]}",
        "pilot": script(Path("/home/ann/a b")),
        "join": f"#!/bin/sh\n{command('main:8781', '0' * 64, 'node2', 's3cret')}\n",
    }


@pytest.mark.skipif(SHELLCHECK is None, reason="needs shellcheck, of the Debian package of this name")
def test_shellcheck_has_nothing_to_say(tmp_path: Path) -> None:
    paths = tracked()
    assert len(paths) > 10
    for name, text in written().items():
        (tmp_path / name).write_text(text)
        paths.append(tmp_path / name)
    # Scripts as people write them for Slurm: they split words on purpose, and leave `$` to the shells that they start.
    as_found = [path for path in paths if path.parent.name == "scripts"]
    for words in (
        ["--exclude=SC2207,SC1090,SC1091,SC2016", *as_found],
        [path for path in paths if path not in as_found],
    ):
        done = subprocess.run([str(SHELLCHECK), *words], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, ""), done.stdout
