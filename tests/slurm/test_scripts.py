"""The same sbatch scripts, run unchanged by a real Slurm and by gpuq: the same exit codes and the same output.

Run by `make test-slurm`; some two minutes. conda, apptainer and torchrun are stand-ins here: programs of a few lines that print
what they are called with, because Debian has none of them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.test_gang_over_hosts import SecondHost
from tests.support import forked, slurm_cluster
from tests.support.site import Site
from tests.support.slurm_cluster import SlurmCluster

pytestmark = pytest.mark.slurm
SCRIPTS = Path(__file__).with_name("scripts")
STAND_INS = {
    "conda": """#!/bin/sh
[ "$1 $2" = "info --base" ] && cd "$(dirname "$0")/.." && pwd
""",
    "apptainer": """#!/bin/sh
[ "$1" = exec ] || exit 2
shift
while [ "${1%.sif}" = "$1" ]; do echo "option $1" | sed "s|$PWD|HERE|"; shift; done
shift
exec "$@"
""",
    "torchrun": """#!/bin/sh
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
for word; do echo "$word" | sed "s/$first/FIRST/"; done | xargs echo "torchrun"
""",
}
CONDA = 'conda() { [ "$1" = activate ] && export CONDA_DEFAULT_ENV="$2"; }\n'
# script -> its arguments.
ALONE = {
    "one_gpu.sh": ["lr=0.1"],
    "two_gpus.sh": [],
    "steps.sh": [],
    "torchrun.sh": [],
    "limit.sh": [],
    "conda.sh": [],
    "apptainer.sh": [],
    "export.sh": [],
    "fails.sh": [],
}


@pytest.fixture(scope="module")
def work() -> Iterator[Path]:
    """A folder with the scripts, and stand-ins in `bin`."""
    folder = Path(tempfile.mkdtemp(prefix="gq-slurm-"))
    folder.chmod(0o755)
    for script in SCRIPTS.iterdir():
        shutil.copy(script, folder)
    (folder / "bin").mkdir()
    for name, text in STAND_INS.items():
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)
    (folder / "etc/profile.d").mkdir(parents=True)
    (folder / "etc/profile.d/conda.sh").write_text(CONDA)
    yield folder
    shutil.rmtree(folder)


class Slurm:
    """The real one."""

    def __init__(self, cluster: SlurmCluster, work: Path) -> None:
        self._cluster, self._work = cluster, work

    def sbatch(self, *words: str) -> tuple[int, str, str]:
        """(exit code, id, what it says of its failure) of one command."""
        path = f"{self._work}/bin:{self._cluster.environment['PATH']}"
        env = {**os.environ, **self._cluster.environment, "PATH": path}
        command = ["sbatch", f"--output={self._work}/%j.out", "--error=/dev/null", "--parsable", *words]
        done = subprocess.run(command, cwd=self._work, env=env, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.strip(), done.stderr

    def output(self, job: str) -> list[str]:
        """The lines of a job, or of all tasks of an array, sorted."""
        found = self._cluster.run("scontrol", "show", "job", job).split()
        ids = [word.partition("=")[2] for word in found if word.startswith("JobId=")]
        return sorted(line for one in ids for line in (self._work / f"{one}.out").read_text().splitlines())


class Gpuq:
    """gpuq, with its commands of Slurm's names first on PATH."""

    def __init__(self, site: Site, work: Path) -> None:
        self._site, self._work = site, work
        self._env = {**site.env, "PATH": f"{work}/bin:{site.home}/slurm:{os.environ['PATH']}"}
        assert forked.gpuq("slurm-commands", str(site.home / "slurm"), env=self._env).returncode == 0

    def sbatch(self, *words: str) -> tuple[int, str, str]:
        command = [str(self._site.home / "slurm" / "sbatch"), "--parsable", *words]
        done = subprocess.run(command, cwd=self._work, env=self._env, capture_output=True, text=True, check=False)
        assert done.stdout.strip(), done.stderr
        return done.returncode, done.stdout.strip(), done.stderr

    def output(self, job: str, tasks: int = 1) -> list[str]:
        """As Slurm's; where a job ran on several hosts, a line that each of them printed counts once."""
        lines: list[str] = []
        for one in range(int(job), int(job) + tasks):
            logs = [Path(attempt["log_path"]).read_text() for attempt in self._site.job(one)["attempts"]]
            lines += {line for log in logs for line in log.splitlines()} if len(logs) > 1 else logs[0].splitlines()
        return sorted(lines)


@pytest.fixture(scope="module")
def slurm(work: Path) -> Iterator[Slurm]:
    reason = slurm_cluster.missing()
    if reason:
        pytest.skip(reason)
    cluster = SlurmCluster(Path(tempfile.mkdtemp(prefix="gq-slurm-")))
    cluster.start(60)
    try:
        yield Slurm(cluster, work)
    finally:
        cluster.stop()
        shutil.rmtree(cluster.folder, ignore_errors=True)


@pytest.fixture(scope="module")
def gpuq(work: Path) -> Iterator[Gpuq]:
    settings = {"devices_cpu_count": 2, "devices_cpu_cores": 1, "admission_memory_headroom": 0.95}
    with Site(worker_address="127.0.0.1", **settings) as site:
        second = SecondHost(site)
        try:
            yield Gpuq(site, work)
        finally:
            second.close()


@pytest.mark.parametrize("script", ALONE)
def test_a_script_gives_the_same_in_both(slurm: Slurm, gpuq: Gpuq, script: str) -> None:
    there, here = (queue.sbatch("--wait", script, *ALONE[script]) for queue in (slurm, gpuq))
    assert (here[0], gpuq.output(here[1])) == (there[0], slurm.output(there[1])), (there[2], here[2])


def test_an_array_has_the_same_tasks_in_both(slurm: Slurm, gpuq: Gpuq) -> None:
    there, here = (queue.sbatch("--wait", "array.sh") for queue in (slurm, gpuq))
    assert (here[0], gpuq.output(here[1], tasks=4)) == (there[0], slurm.output(there[1])), (there[2], here[2])


def test_a_job_waits_for_the_one_before_in_both(slurm: Slurm, gpuq: Gpuq, work: Path) -> None:
    said = []
    for queue in (slurm, gpuq):
        (work / "prepared.txt").unlink(missing_ok=True)
        first = queue.sbatch("prepare.sh")
        second = queue.sbatch("--wait", f"--dependency=afterok:{first[1]}", "after.sh")
        assert second[0] == 0, (first, second)
        said.append((queue.output(first[1]), queue.output(second[1])))
    assert said[0] == said[1]


def test_tasks_wait_for_those_of_their_number_in_both(slurm: Slurm, gpuq: Gpuq) -> None:
    jobs = []
    for queue in (slurm, gpuq):
        _, first, _ = queue.sbatch("array.sh")
        code, second, said = queue.sbatch("--wait", f"--dependency=aftercorr:{first},after:{first}", "array.sh")
        assert code == 0, said
        jobs.append((first, second))
    assert [slurm.output(job) for job in jobs[0]] == [gpuq.output(job, tasks=4) for job in jobs[1]]
