"""Jobs in pilots: a real Slurm with one node and eight emulated GPUs, and the real commands."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import slurm_cluster
from tests.support.mock_gpus import MockGpus
from tests.support.site import wait_for
from tests.support.slurm_cluster import SlurmCluster

pytestmark = pytest.mark.slurm
JOB = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
print("runs in", os.environ.get("CUDA_VISIBLE_DEVICES"), flush=True)
time.sleep(float(sys.argv[1]))
"""


class User:
    """Someone with a home that the nodes share, who has gpuq installed."""

    def __init__(self, cluster: SlurmCluster, gpus: MockGpus) -> None:
        # Not pytest's tmp_path: a Unix socket's path may not be longer than 107 bytes.
        self.home = Path(tempfile.mkdtemp(prefix="gq-"))
        self.cluster = cluster
        self.env = {**os.environ, **cluster.environment, "GPUQ_HOME": str(self.home / "h"), "HOME": str(self.home)}
        self.emulated = ",".join(["HOME", "PATH", *(f"{name}={value}" for name, value in gpus.environ.items())])
        (self.home / "job.py").write_text(JOB)

    def gpuq(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-P", "-c", "import sys; from gpuq.cli.main import main; sys.exit(main())", *words]
        return subprocess.run(command, env=self.env, cwd=self.home, capture_output=True, text=True, check=False)

    def json(self, *words: str) -> object:
        return json.loads(self.gpuq(*words, "--json").stdout)

    def submit(self, seconds: float, *options: str) -> str:
        return self.gpuq("submit", "--parsable", *options, "job.py", str(seconds)).stdout.strip()

    def state(self, job: str) -> str:
        return str(self.json("show", job)["state"])  # type: ignore[index]

    def pilots(self) -> list[str]:
        return self.cluster.run("squeue", "--noheader", "--format=%i").split()

    def close(self) -> None:
        self.gpuq("down", "--stop-jobs")
        shutil.rmtree(self.home, ignore_errors=True)


@pytest.fixture(scope="module")
def user() -> Iterator[User]:
    why = slurm_cluster.missing()
    if why is not None:
        pytest.skip(why)
    folder = Path(tempfile.mkdtemp(prefix="gq-slurm-"))
    cluster = SlurmCluster(folder, nodes=1, gpus=8)
    with MockGpus() as gpus:
        try:
            cluster.start()
            user = User(cluster, gpus)
            try:
                yield user
            finally:
                user.close()
        finally:
            cluster.stop()
            shutil.rmtree(folder)


def test_a_pool_that_slurm_would_refuse_is_refused_in_slurms_words(user: User) -> None:
    done = user.gpuq("pool", "add", "slurm", "--", "--partition=nope")
    assert done.returncode == 2
    assert "invalid partition specified: nope" in done.stderr
    assert user.gpuq("pool").stdout.startswith("There is no pool")


def test_two_commands_run_a_job_in_an_allocation_that_ends_when_it_is_idle(user: User) -> None:
    options = ("--gpus", "2", "--max", "2", "--idle", "20s", "--time", "10m")
    added = user.gpuq("pool", "add", "slurm", *options, "--", f"--export={user.emulated}")
    assert added.returncode == 0, added.stderr
    job = user.submit(1)
    assert user.gpuq("wait", job).returncode == 0
    assert len(user.pilots()) == 1
    assert "runs in GPU-" in user.gpuq("logs", job).stdout
    wait_for(lambda: not user.pilots(), 60)
    wait_for(lambda: user.json("host") == [], 60)
    assert "runs in GPU-" in user.gpuq("logs", job).stdout, "the log outlives the pilot"


def test_a_job_that_may_start_again_does_so_when_its_allocation_is_cancelled(user: User) -> None:
    job, other = user.submit(600, "--requeue", "--exclusive"), user.submit(600, "--exclusive")
    wait_for(lambda: (user.state(job), user.state(other)) == ("RUNNING", "RUNNING"), 90)
    user.cluster.run("scancel", *user.pilots())
    wait_for(lambda: user.state(other) == "NODE_FAIL", 60)
    wait_for(lambda: len(user.json("show", job)["attempts"]) == 2 and user.state(job) == "RUNNING", 300)  # type: ignore[index]
    assert user.gpuq("cancel", job).returncode == 0


def test_a_pilot_that_dies_without_notice_loses_no_job(user: User) -> None:
    job = user.submit(600, "--requeue")
    wait_for(lambda: user.state(job) == "RUNNING", 90)
    user.cluster.run("scancel", "--signal=KILL", "--full", *user.pilots())
    wait_for(lambda: len(user.json("show", job)["attempts"]) == 2 and user.state(job) == "RUNNING", 300)  # type: ignore[index]


def test_the_pilots_of_a_pool_that_is_removed_end(user: User) -> None:
    assert user.gpuq("pool", "remove", "slurm").returncode == 0
    wait_for(lambda: not user.pilots(), 90)
