"""`--image` with a real podman, and an image that is made here of a shell and its libraries.

Where the usual options of containers are refused, as in most sandboxes, `CONTAINERS_CONF` may name a file with others, such as
another runtime and lower limits.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import forked
from tests.support.site import Site, wait_for

pytestmark = pytest.mark.soak
IMAGE = "localhost/gpuq-test:shell"
PROGRAMS = ("sh", "sleep", "cat")


def podman(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["podman", *words], capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if shutil.which("podman") is None:
        pytest.skip("podman not found: apt-get install podman")
    archive = tmp_path_factory.mktemp("image") / "image.tar"
    paths = {str(shutil.which(name)) for name in PROGRAMS}
    for path in list(paths):
        said = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
        paths |= set(re.findall(r"(/\S+) \(0x", said))
    with tarfile.open(archive, "w") as tar:
        for path in sorted(paths):
            tar.add(Path(path).resolve(), arcname=path)
    made = podman("import", str(archive), IMAGE)
    if made.returncode:
        pytest.skip(f"podman imports no image here: {made.stderr.strip()}")
    tried = podman("run", "--rm", "--network=host", "--ipc=host", "--pid=host", IMAGE, "sh", "-c", "exit 0")
    if tried.returncode:
        podman("rmi", "--force", IMAGE)
        pytest.skip(f"podman runs no container here: {tried.stderr.strip()}")
    yield IMAGE
    podman("rmi", "--force", IMAGE)


def containers() -> str:
    return podman("ps", "--quiet", "--filter=label=gpuq=job").stdout


def test_jobs_in_an_image_end_as_others_do(image: str) -> None:
    with Site(devices_cpu_count=1, devices_cpu_cores=1, admission_memory_headroom=0.95) as site:
        options = ["--exclusive", "--image", image, "--parsable"]
        if "CONTAINERS_CONF" in os.environ:
            options += ["-e", f"CONTAINERS_CONF={os.environ['CONTAINERS_CONF']}"]

        def submit(*words: str) -> int:
            done = forked.gpuq("submit", *options, *words, env=site.env, cwd=site.home, text=True)
            assert done.returncode == 0, done.stderr
            return int(done.stdout)

        failed = submit("--", "sh", "-c", "echo job $GPUQ_JOB_ID in $PWD; exit 7")
        found = site.wait(failed)
        assert (found["state"], found["exit_code"]) == ("FAILED", 7)
        assert Path(found["log_path"]).read_text() == f"job {failed} in {site.home}\n"

        late = submit("--time", "3s", "--", "sh", "-c", "echo began; sleep 300")
        found = site.wait(late)
        assert (found["state"], found["reason"]) == ("TIMEOUT", "it ran longer than its limit of 3 s"), (
            "SIGTERM was enough"
        )

        stopped = submit("--", "sleep", "300")
        site.wait(stopped, "RUNNING")
        wait_for(containers, 30)
        site.request("POST", f"/api/v1/jobs/{stopped}/cancel")
        assert site.wait(stopped)["reason"].startswith("cancelled by ")

        saves = submit(
            "--signal",
            "USR1@297",
            "--time",
            "300s",
            "--",
            "sh",
            "-c",
            "trap 'echo saved; exit 0' USR1; echo ready; while :; do sleep 1; done",
        )
        assert site.wait(saves)["state"] in {"COMPLETED", "TIMEOUT"}
        assert "saved" in Path(site.job(saves)["log_path"]).read_text()
        wait_for(lambda: not containers(), 10)
    podman("container", "prune", "--force", "--filter=label=gpuq=job")
