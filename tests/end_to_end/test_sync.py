"""From a laptop: the files go to a gpuq over TCP with a token, and what the job made comes back. By the real command, with a real
job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuq.client import Client
from tests.support import forked
from tests.support.site import Site

PROGRAM = """\
import os, sys
from src.model import W
os.makedirs("out", exist_ok=True)
open("out/result.csv", "w").write(f"{W},{sys.argv[1]}")
open("src/model.py", "a").write("# the job was here\\n")
os.symlink("/etc/passwd", "out/link")
print(sys.executable, os.path.basename(os.getcwd()), os.environ.get("SEED"), os.environ.get("SECRET"), flush=True)
"""


class Laptop:
    """A user elsewhere: another home without a gpuq, who has an address and a token, and a work tree."""

    def __init__(self, site: Site, folder: Path) -> None:
        self.tree = folder / "project"
        (self.tree / "src").mkdir(parents=True)
        (self.tree / "train.py").write_text(PROGRAM)
        (self.tree / "src/model.py").write_text("W = 1\n")
        (self.tree / ".gitignore").write_text("data/\n__pycache__/\n")
        subprocess.run(["git", "init", "-q"], cwd=self.tree, check=True)
        port = json.loads((site.home / "run/http.json").read_bytes())["port"]
        made = site.request("POST", "/api/v1/tokens", {"note": "laptop"})[1]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("GPUQ_")}
        self.address = f"http://127.0.0.1:{port}"
        self.env = {**inherited, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config"), "SECRET": "s3cret"}
        done = self.gpuq("login", self.address, stdin=f"{made['token']}\n".encode())
        assert done.returncode == 0, done.stderr

    def gpuq(self, *words: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[str]:
        return forked.gpuq(*words, env=self.env, cwd=self.tree, stdin=stdin, text=True)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with Site(devices_cpu_count=1, admission_memory_headroom=0.95, api_sync_tree_bytes=2**20) as site:
        yield site


@pytest.fixture
def laptop(site: Site, tmp_path: Path) -> Laptop:
    return Laptop(site, tmp_path)


def test_a_work_tree_goes_there_and_what_the_job_made_or_changed_comes_back(site: Site, laptop: Laptop) -> None:
    done = laptop.gpuq("submit", "--sync", "--wait", "-e", "SEED=7", "--python", sys.executable, "train.py", "a b")
    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stderr
    job = int(done.stdout)
    assert laptop.gpuq("logs", str(job)).stdout == f"{sys.executable} files 7 None\n"
    fetched = laptop.gpuq("fetch", str(job))
    assert (fetched.returncode, fetched.stdout) == (0, "out/result.csv\nsrc/model.py\n")
    assert "left out, as links or no plain files: out/link" in fetched.stderr
    assert (laptop.tree / f"gpuq-{job}/out/result.csv").read_text() == "1,a b"

    # Its own src/model.py is not replaced, and then nothing else is written either.
    done = laptop.gpuq("fetch", str(job), "--to", ".")
    assert (done.returncode, "src/model.py; nothing was written" in done.stderr) == (6, True)
    assert not (laptop.tree / "out").exists()
    done = laptop.gpuq("fetch", str(job), "--to", "results", "*.csv")
    assert [str(path.relative_to(laptop.tree)) for path in laptop.tree.glob("results/**/*.*")] == [
        "results/out/result.csv"
    ]


def test_after_an_edit_only_the_edited_file_is_sent_and_the_kind_stays(site: Site, laptop: Laptop) -> None:
    first = int(laptop.gpuq("submit", "--sync", "--wait", "train.py", "x").stdout)
    contents = set((site.home / "synced").rglob("blobs/??/*"))
    (laptop.tree / "src/model.py").write_text("W = 2\n")
    second = int(laptop.gpuq("submit", "--sync", "train.py", "x").stdout)
    (laptop.tree / "src/model.py").write_text("W = 3\n")  # has no effect any more
    found = site.wait(second)
    assert found["state"] == "COMPLETED"
    assert len(set((site.home / "synced").rglob("blobs/??/*")) - contents) == 1
    assert laptop.gpuq("fetch", str(second), "out").stdout == "out/result.csv\n"
    assert (laptop.tree / f"gpuq-{second}/out/result.csv").read_text() == "2,x"
    assert found["kind"] == site.job(first)["kind"]


def test_an_array_has_one_tree_and_each_task_a_folder_of_its_own(site: Site, laptop: Laptop) -> None:
    (laptop.tree / "task.sh").write_text("#!/bin/sh\ntest ! -e out\necho $1 >out\nexit $?\n")
    (laptop.tree / "task.sh").chmod(0o755)
    done = laptop.gpuq("submit", "--sync", "--wait", "--array", "1-3", "task.sh", "{task}")
    assert done.returncode == 0, done.stderr
    array = int(done.stdout)
    for task in (1, 2, 3):
        assert laptop.gpuq("fetch", f"{array}_{task}", "--to", f"t{task}").stdout == "out\n"
        assert (laptop.tree / f"t{task}/out").read_text() == f"{task}\n"
    assert len(list((site.home / "synced").rglob("trees/*"))) >= 1


def test_an_interpreter_that_the_host_does_not_have_is_said_in_the_output(laptop: Laptop) -> None:
    done = laptop.gpuq("submit", "--sync", "--wait", "--python", "/opt/torch/bin/python", "train.py")
    assert done.returncode == 127
    said = laptop.gpuq("logs", done.stdout.strip()).stdout
    assert "/opt/torch/bin/python cannot be started on" in said
    assert "gpuq submit --sync --python PATH" in said


def test_what_was_not_sent_is_not_fetched(site: Site, laptop: Laptop) -> None:
    job = site.submit("/bin/true")
    site.wait(job)
    done = laptop.gpuq("fetch", str(job))
    assert (done.returncode, "was not submitted with --sync" in done.stderr) == (6, True)
    assert laptop.gpuq("fetch", "999999").returncode == 3


def test_too_large_a_tree_is_refused_with_the_names_of_its_largest_files(site: Site, laptop: Laptop) -> None:
    with (laptop.tree / "data.bin").open("wb") as file:
        file.truncate(3 * 2**20)
    done = laptop.gpuq("submit", "--sync", "train.py")
    assert (done.returncode, done.stdout) == (5, "")
    assert "this gpuq takes 1.0 MiB. The largest are data.bin (3.0 MiB)" in done.stderr
    (laptop.tree / ".gpuqignore").write_text("data.bin\n")
    assert laptop.gpuq("submit", "--sync", "--hold", "train.py").returncode == 0, "as the fix says"


def test_the_same_from_python(site: Site, laptop: Laptop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(laptop.tree)
    for name in ("XDG_CONFIG_HOME", "HOME"):
        monkeypatch.setenv(name, laptop.env[name])
    for name in [name for name in os.environ if name.startswith("GPUQ_")]:
        monkeypatch.delenv(name)
    with Client() as client:
        (job,) = client.wait([client.submit("train.py", "py", sync=True, python=sys.executable)])
        assert job.exit_code == 0
        assert client.fetch(job, "*.csv", to="there") == [laptop.tree / "there/out/result.csv"]
        assert (laptop.tree / "there/out/result.csv").read_text() == "1,py"
