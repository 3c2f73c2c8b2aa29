"""The packages, built once for all tests that install them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@cache
def why_no_root() -> str | None:
    if os.geteuid() != 0:
        return "a clean root needs root"
    missing = [name for name in ("debootstrap", "dpkg-deb", "unshare", "chroot") if shutil.which(name) is None]
    return f"needs {', '.join(missing)}: apt-get install debootstrap" if missing else None


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the packages."""
    out = tmp_path_factory.mktemp("packages")
    which = [] if why_no_root() is None else ["--only", "wheels"]
    command = [sys.executable, str(ROOT / ".ci/packages/build.py"), "--out", str(out), *which]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "No matching distribution" in done.stderr or "NewConnectionError" in done.stderr:
        pytest.skip("the package index cannot be reached")
    assert done.returncode == 0, done.stderr
    sys.stdout.write(done.stdout)
    return out
