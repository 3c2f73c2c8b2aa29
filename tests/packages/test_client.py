"""gpuq-client: the command with no daemon and no libraries."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.cli.conftest import FakeApi, Reply, serve

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The content of the wheel alone; the interpreter gets no other packages."""
    folder = tmp_path_factory.mktemp("client")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT / ".ci/packages/client", check=True, capture_output=True)
    (wheel,) = folder.glob("gpuq_client-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def gpuq(site: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    code = f"import sys; sys.path.insert(0, {str(site)!r}); from gpuq.cli.main import main; sys.exit(main())"
    environ = {"PATH": os.environ["PATH"], "HOME": str(site), **env}
    # -S: the standard library alone.
    command = [sys.executable, "-I", "-S", "-c", code, *words]
    return subprocess.run(command, capture_output=True, text=True, env=environ, cwd=site, check=False)


def test_jobs_are_submitted_and_watched_with_the_standard_library_alone(installed: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "run").mkdir(parents=True, mode=0o700)
    api = FakeApi(home)
    api.on("POST", "/api/v1/jobs", Reply({"id": 42}, 201))
    api.on("GET", "/api/v1/jobs", Reply({"jobs": [], "next": None}))
    answer = {"jobs": {"PENDING": [42]}, "now": {"CANCELLED": [42]}, "refused": [], "missing": [], "dry_run": False}
    api.on("POST", "/api/v1/jobs/cancel", Reply(answer))
    (installed / "train.py").write_text("import torch\nparser.add_argument('--lr', default=0.1)\n")
    with serve(api, home / "run" / "api.sock"):
        there = f"unix://{home}/run/api.sock"
        done = gpuq(installed, "submit", "train.py", "--lr", "0.1", GPUQ_HOST=there)
        assert (done.returncode, done.stdout, done.stderr) == (0, "42\n", "")
        assert api.asked("POST", "/api/v1/jobs")[0].body["hints"]
        for words in (("queue",), ("cancel", "42")):
            done = gpuq(installed, *words, GPUQ_HOST=there)
            assert done.returncode == 0, (words, done.stderr)


def test_a_page_of_a_report_needs_jinja(installed: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "run").mkdir(parents=True, mode=0o700)
    api = FakeApi(home)
    total = {"attempts": 0, "unknown": {}}
    api.on("GET", "/api/v1/report/usage", Reply({"groups": [], "total": total, "by": ["user"], "days": 7, "since": 0}))
    with serve(api, home / "run" / "api.sock"):
        host = f"unix://{home}/run/api.sock"
        done = gpuq(installed, "report", "use", "--html", GPUQ_HOST=host)
        assert (done.returncode, done.stdout) == (2, "")
        assert "pip install 'gpuq-client[html]'" in done.stderr
        for library in ("jinja2", "markupsafe"):
            (installed / library).symlink_to(Path(find_spec(library).origin).parent)
        done = gpuq(installed, "report", "use", "--html", GPUQ_HOST=host)
        assert done.stdout.startswith("<!doctype html>"), done.stderr


@pytest.mark.parametrize("verb", ["up", "doctor", "simulate"])
def test_what_needs_the_daemon_says_what_to_install(installed: Path, verb: str) -> None:
    done = gpuq(installed, verb)
    assert done.returncode == 2
    assert "gpuq-client" in done.stderr
    assert "pip install . in a checkout of gpuq" in done.stderr


def test_each_verb_finds_all_that_it_imports(installed: Path) -> None:
    """Also what a function imports, which no `--help` shows. Verbs of the daemon are refused before."""
    of_doctor = {"daemon_checks.py", "service_logs.py", "doctor.py"}
    missing = [
        f"{path.relative_to(installed)}: {module}"
        for path in installed.rglob("*.py")
        if path.name not in of_doctor
        for module in imported(path) - ({"gpuq.services_environment"} if path.name == "main.py" else set())
        if not any((installed / f"{module.replace('.', '/')}{end}").exists() for end in (".py", "/__init__.py"))
    ]
    assert missing == []


def imported(path: Path) -> set[str]:
    """The modules of gpuq that the one at `path` imports."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    names |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return {name for name in names if name.startswith("gpuq.")}
