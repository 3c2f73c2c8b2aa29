"""submitit's own tests, with gpuq's executor where they name the local one. Run by `make package-test`; some three minutes."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.support.site import Site

ROOT = Path(__file__).resolve().parents[2]
VERSION = "1.5.4"
EXCLUDED = {
    "auto/test_auto.py::test_python_executor": "names another interpreter; gpuq takes the submitter's",
    "core/test_plugins.py::test_find_good_plugin": "expects that no other executor is installed",
    "core/test_plugins.py::test_skip_bad_plugin": "expects that no other executor is installed",
    "local/test_local.py::test_local_job": "looks at the process of a local job, which this process has not started",
    "local/test_local.py::test_killed": "kills the process of a local job",
    "local/test_local.py::test_cancel": "expects a local job to run at once, and its process to end by SIGINT",
    "local/test_local.py::test_setup": "gives lines for a shell, which gpuq does not run",
    "test_helpers.py::test_as_completed": "expects two of three jobs to have started Python and ended within 1.5 s",
}
pytestmark = pytest.mark.packages


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked source package, as a git work tree, which its tests of snapshots need."""
    pytest.importorskip("submitit", reason="needs the extra `submitit`")
    folder = tmp_path_factory.mktemp("submitit")
    words = ["download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", str(folder), f"submitit=={VERSION}"]
    if subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, check=False).returncode:
        pytest.skip("the package index cannot be reached")
    with tarfile.open(folder / f"submitit-{VERSION}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    tree = folder / f"submitit-{VERSION}"
    git = ["git", "-c", "user.name=test", "-c", "user.email=test@localhost"]
    for command in (
        [*git, "init", "--quiet"],
        [*git, "add", "--all"],
        [*git, "commit", "--quiet", "--message", "source"],
    ):
        subprocess.run(command, cwd=tree, check=True)
    return tree


def test_submitits_own_tests_pass_with_gpuqs_executor(source: Path) -> None:
    left_out = [word for test in EXCLUDED for word in ("--deselect", f"submitit/{test}")]
    words = ["-q", "-p", "no:cacheprovider", "-p", "tests.packages.submitit_plugin", "-o", "addopts=", *left_out]
    with Site(devices_cpu_count=2, admission_memory_headroom=0.95) as site:
        env = {**site.env, "PYTHONPATH": f"{source}:{ROOT}"}
        command = [sys.executable, "-m", "pytest", *words, "submitit"]
        done = subprocess.run(command, cwd=source, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-8000:]
    sys.stdout.write(done.stdout.splitlines()[-1] + "\n")
