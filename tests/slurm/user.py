"""Someone with a home that the nodes share, who has gpuq installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support import slurm_cluster
from tests.support.mock_gpus import MockGpus
from tests.support.slurm_cluster import SlurmCluster

JOB = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
print("runs in", os.environ.get("CUDA_VISIBLE_DEVICES"), flush=True)
time.sleep(float(sys.argv[1]))
"""


class User:
    """With the commands of gpuq and of a cluster."""

    def __init__(self, cluster: SlurmCluster, gpus: MockGpus) -> None:
        # Not pytest's tmp_path: a Unix socket's path may not be longer than 107 bytes.
        self.home = Path(tempfile.mkdtemp(prefix="gq-"))
        self.cluster = cluster
        own = {"GPUQ_HOME": str(self.home / "h"), "HOME": str(self.home)}
        self.env = {**os.environ, **cluster.environment, **gpus.environ, **own}
        (self.home / "job.py").write_text(JOB)

    def gpuq(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-P", "-c", "import sys; from gpuq.cli.main import main; sys.exit(main())", *words]
        return subprocess.run(command, env=self.env, cwd=self.home, capture_output=True, text=True, check=False)

    def json(self, *words: str) -> object:
        return json.loads(self.gpuq(*words, "--json").stdout)

    def submit(self, seconds: float, *options: str) -> str:
        done = self.gpuq("submit", "--parsable", *options, "job.py", str(seconds))
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def state(self, job: str) -> str:
        return str(self.json("show", job)["state"])  # type: ignore[index]

    def pilots(self) -> list[str]:
        return self.cluster.run("squeue", "--noheader", "--format=%i").split()

    def keep_logs(self, folder: Path) -> None:
        """Copy all that Slurm, the pilots and gpuq wrote, with its record, and what both say now."""
        folder.mkdir(parents=True)
        left_out = shutil.ignore_patterns("*.sock", "socket", "redis-server", "nvidia*", "tls", "*.key", "token")
        for name, source in {"slurm": self.cluster.folder, "home": self.home}.items():
            with suppress(shutil.Error):  # a file that is removed meanwhile
                shutil.copytree(source, folder / name, ignore=left_out, symlinks=True)
        with (folder / "now.txt").open("w") as file:
            for command in ("squeue --states=all", "sinfo --Node --long", "scontrol show job"):
                file.write(f"$ {command}\n{self.cluster.run(*command.split(), check=False)}\n")
            file.write(self.cluster.run("ps", "-eo", "pid,ppid,pgid,stat,etime,args"))
            queue: list[dict[str, object]] = self.json("queue")  # type: ignore[assignment]
            explained = [["explain", str(job["id"])] for job in queue]
            for words in (["pool", "--json"], ["host"], ["gpus"], ["queue", "--all"], ["doctor"], *explained):
                said = self.gpuq(*words)
                file.write(f"$ gpuq {' '.join(words)}\n{said.stdout}{said.stderr}\n")

    def close(self) -> None:
        self.gpuq("down", "--stop-jobs")
        shutil.rmtree(self.home, ignore_errors=True)


@contextmanager
def user_of_cluster(nodes: int, gpus: int, *, accounts: bool = False) -> Iterator[User]:
    """A cluster with so many GPUs on each node, and a user of it. Skips the test where there can be none."""
    why = slurm_cluster.missing(accounts=accounts)
    if why is not None:
        pytest.skip(why)
    folder = Path(tempfile.mkdtemp(prefix="gq-slurm-"))
    cluster = SlurmCluster(folder, nodes=nodes, gpus=gpus, cpus=2 * gpus, accounts=accounts)
    with MockGpus() as emulated:
        try:
            cluster.start(60)
            user = User(cluster, emulated)
            try:
                yield user
            finally:
                user.close()
        finally:
            cluster.stop()
            shutil.rmtree(folder)
