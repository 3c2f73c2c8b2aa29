"""`python -m benchmarks.slurm`: the same jobs by `sbatch` one by one, an array, shards, HyperQueue, and gpuq's pilots.

Two nodes with four emulated GPUs each, on a real Slurm of this machine's own. It needs root, Debian's slurm-wlm and the emulated
GPUs of `make demo-gpu`; HyperQueue is left out where it is not installed. GPU-hours are those that Slurm's log of ended jobs
(jobcomp) says were allocated. Written to build/bench-slurm.json. Ratios of one run can be compared, seconds of two cannot.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.slurm.held import Held, held
from benchmarks.slurm.work import JOB, Work, drawn
from benchmarks.table import BUILD
from gpuq.policies.pilots import SCALING
from gpuq.states import JobState
from tests.support import slurm_cluster
from tests.support.mock_gpus import MockGpus
from tests.support.slurm_cluster import SlurmCluster

# What a user must say of memory and cores so that two jobs of his fit on one GPU's part of a node; the same for all.
SMALL = ["--mem=100", "--cpus-per-task=1", "--time=60"]
SHARDS = 2
RPCS = ("REQUEST_SUBMIT_BATCH_JOB", "REQUEST_JOB_INFO", "REQUEST_JOB_INFO_SINGLE", "REQUEST_KILL_JOB", "REQUEST_CANCEL_JOB_STEP",
        "REQUEST_JOB_USER_INFO", "REQUEST_JOB_WILL_RUN")  # fmt: skip


@dataclass
class Result:
    """Of one way to run the jobs. `rpcs`: calls of Slurm's controller by commands of the user."""

    name: str
    gpu_hours: float
    makespan_s: float
    mean_completion_s: float
    failed: int
    rpcs: int | None
    held: str | None = None
    load: str = ""


class Bench:
    """A cluster, its emulated GPUs, and the jobs."""

    def __init__(self, cluster: SlurmCluster, gpus: MockGpus, work: Sequence[Work]) -> None:
        self.cluster, self.gpus, self.work = cluster, gpus, work
        self.env = {**os.environ, **cluster.environment, "EMULATE": str(gpus.folder)}
        self.started, self.ended = cluster.folder / "gpus.log", cluster.folder / "jobcomp.log"
        self.held: Held | None = None

    @property
    def gpus_of_cluster(self) -> int:
        return self.cluster.nodes * self.cluster.gpus

    def sbatch(self, *options: str) -> list[float]:
        """Submit each job by itself; seconds until each had ended."""
        began = time.time()
        for number, one in enumerate(self.work):
            words = ["sbatch", "--parsable", *SMALL, f"--job-name=j{number}", *options, "--output=/dev/null"]
            # In the script: for variables in --export, the node would start a login shell first.
            variables = " ".join(f"{key}={value}" for key, value in one.environment.items())
            script = f"#!/bin/sh\nexport {variables}\nexec {sys.executable} -S {JOB} {one.seconds}\n"
            subprocess.run(
                words,
                input=script,
                env=self.env,
                text=True,
                check=True,
                capture_output=True,
            )
        return self._until_slurm_is_empty(began, len(self.work))

    def array(self) -> list[float]:
        """One array."""
        table = self.cluster.folder / "tasks"
        table.write_text("".join(f"{one.percent:g},{one.mib} {one.seconds}\n" for one in self.work))
        script = (
            f'#!/bin/sh\nset -- $(sed -n "$((SLURM_ARRAY_TASK_ID + 1))p" {table})\nexport EMULATED_GPU=$1 EMULATED_ANY=1\n'
            f"exec {sys.executable} -S {JOB} $2\n"
        )
        began = time.time()
        words = [
            "sbatch",
            "--parsable",
            *SMALL,
            "--gres=gpu:1",
            f"--array=0-{len(self.work) - 1}",
            "--output=/dev/null",
        ]
        subprocess.run(words, input=script, env=self.env, text=True, check=True, capture_output=True)
        return self._until_slurm_is_empty(began, len(self.work))

    def pilots(self, scaling: str, *, known: bool) -> list[float]:
        """gpuq, from nothing: it knows no kind, or it has run one job of each kind in pilots that have ended."""
        home = Path(tempfile.mkdtemp(prefix="gq-"))
        env = {**self.env, **self.gpus.environ, "GPUQ_HOME": str(home / "h"), "HOME": str(home)}
        # GPU-hours and the last job count here, and no job by itself, as with shards: the longest first, and as many as pay.
        env |= {
            "GPUQ_ADMISSION_RESIDENTS_PER_DEVICE": "8",
            "GPUQ_ADMISSION_MAX_SLOWDOWN": "1.5",
            "GPUQ_SCHEDULING_ORDER": "longest",
            # Jobs of some seconds: what a running one has shown after ten counts for the others of its kind.
            "GPUQ_LEARNING_LEVEL_AFTER_S": "10",
        }
        command = [sys.executable, "-P", "-c", "import sys; from gpuq.cli.main import main; sys.exit(main())"]
        add = [
            "pool",
            "add",
            "slurm",
            "--gpus=1",
            "--max=8",
            "--idle=20s",
            "--time=60m",
            f"--scaling={scaling}",
        ]
        try:
            began = time.time()
            subprocess.run([*command, *add], env=env, cwd=home, check=True)
            if known:
                self._in_gpuq(list({one.kind: one for one in self.work}.values()), env, home)
                self._until_slurm_is_empty(began, 1)
                self.hours(shards=False)
                self.cluster.run("sdiag", "--reset")
                began = time.time()
            jobs = self._in_gpuq(self.work, env, home)
            self._until_slurm_is_empty(began, 1)
            self.held = held(self._pilots(), [(host, (at, end)) for job in jobs for host, at, end in job["attempts"]])
            return [job["ended_at"] - began for job in jobs]
        finally:
            subprocess.run([*command, "down", "--stop-jobs"], env=env, cwd=home, check=False)
            shutil.copytree(home / "h" / "logs", BUILD / f"bench-slurm-logs-{os.getpid()}", dirs_exist_ok=True)
            shutil.rmtree(home, ignore_errors=True)

    def _pilots(self) -> dict[str, tuple[float, float]]:
        """When Slurm started and ended each pilot since the last look, by name."""
        ends = re.findall(r" StartTime=(\S+) EndTime=(\S+) .*WorkDir=\S+/(\S+)", self.ended.read_text())
        return {
            name: (datetime.fromisoformat(began).timestamp(), datetime.fromisoformat(over).timestamp())
            for began, over, name in ends
            if began != "Unknown"
        }

    @staticmethod
    def _in_gpuq(work: Sequence[Work], env: dict[str, str], home: Path) -> list[dict[str, Any]]:
        """Run the jobs in the gpuq of this environment. Of each that completed: when it had ended, and its attempts (Unix
        seconds)."""
        here = f"import sys; sys.path[:0] = {[str(Path.cwd())]!r}"
        program = f"{here}; from benchmarks.slurm.__main__ import in_gpuq; in_gpuq()"
        text = json.dumps([asdict(one) for one in work])
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=env,
            cwd=home,
            input=text,
            text=True,
            check=True,
            stdout=subprocess.PIPE,
        )
        found: list[dict[str, Any]] = json.loads(done.stdout)
        return found

    def hyperqueue(self, *, part: float) -> list[float]:
        """HyperQueue on the whole of both nodes, for which it takes one allocation. Its LocalCluster looks for no GPUs, so a core
        of it stands for the GPU of its number; of cores it gives parts too."""
        from hyperqueue import Job, LocalCluster  # type: ignore[import-not-found]
        from hyperqueue.cluster import WorkerConfig  # type: ignore[import-not-found]
        from hyperqueue.ffi.protocol import ResourceRequest  # type: ignore[import-not-found]

        ends = self.cluster.folder / "hyperqueue"
        script = f'CUDA_VISIBLE_DEVICES=$HQ_CPUS "$@" && date +%s.%N >> {ends}'
        began = time.time()
        with LocalCluster() as cluster:
            cluster.start_worker(WorkerConfig(cores=self.gpus_of_cluster))
            client = cluster.client()
            job = Job(default_workdir=self.cluster.folder)
            for one in self.work:
                command = ["/bin/sh", "-c", script, "job", sys.executable, "-S", str(JOB), str(one.seconds)]
                env = {**one.environment, "EMULATE": str(self.gpus.folder)}
                job.program(command, env=env, resources=ResourceRequest(cpus=part))
            client.wait_for_jobs([client.submit(job)])
        return [float(end) - began for end in ends.read_text().split()]

    def hours(self, *, shards: bool) -> float:
        """GPU-hours of the Slurm jobs that ended since the last look; a shard is its part of a GPU."""
        seconds = 0.0
        allocated = self.started.read_text().splitlines()
        gpus = {job: len(which.split(",")) for job, _, which in (line.partition(" ") for line in allocated) if which}
        for line in self.ended.read_text().splitlines():
            job, began, over = re.findall(r"(?:^JobId| StartTime| EndTime)=(\S+)", line)
            took_s = (datetime.fromisoformat(over) - datetime.fromisoformat(began)).total_seconds()
            seconds += (1 / SHARDS if shards else gpus[job]) * took_s
        for log in (self.started, self.ended):
            log.write_text("")
        return seconds / 3600

    def rpcs(self) -> int:
        """Calls by commands of users since the last reset."""
        said = self.cluster.run("sdiag")
        return sum(int(count) for name, count in re.findall(r"(\w+)\s*\(\s*\d+\) count:(\d+)", said) if name in RPCS)

    def _until_slurm_is_empty(self, began: float, least: int) -> list[float]:
        """Wait until all jobs that Slurm started, and so many at least, have ended; seconds until each had. From Slurm's logs:
        to ask it would count as calls."""
        while not self.ended.exists() or self._count(self.ended) < max(least, self._count(self.started)):
            time.sleep(1)
        ends = re.findall(r"JobState=COMPLETED.*?EndTime=(\S+)", self.ended.read_text())
        return [datetime.fromisoformat(end).timestamp() - began for end in ends]

    @staticmethod
    def _count(log: Path) -> int:
        return len(log.read_text().splitlines()) if log.exists() else 0


def in_gpuq() -> None:
    """Submit the jobs on standard input to the gpuq of the environment, and print what became of those that completed."""
    from gpuq.client import Client, submission

    with Client() as client:
        ids = client.submit_all([
            submission(
                # Not with -S, as the others: it keeps the counter of steps out, by which a job that runs becomes evidence.
                [sys.executable, str(Work(**one).script(Path.cwd())), str(one["seconds"])],
                {"kind": one["kind"], "env": {**Work(**one).environment, "EMULATE": os.environ["EMULATE"]}},
                None,
            )
            for one in json.loads(sys.stdin.read())
        ])  # fmt: skip
        ended = [client.job(job.id).record for job in client.wait(ids) if job.state is JobState.COMPLETED]
        print(json.dumps([{"ended_at": job["ended_at_unix"], "attempts": attempts_of(job)} for job in ended]))


def attempts_of(job: Mapping[str, Any]) -> list[tuple[str, float, float]]:
    """The host of each attempt of the job that ran, its start and its end in Unix seconds."""
    times = [(one["host"], one["started_at"], one["ended_at"]) for one in job["attempts"]]
    return [
        (host, datetime.fromisoformat(start).timestamp(), datetime.fromisoformat(end).timestamp())
        for host, start, end in times
        if start and end
    ]


@contextmanager
def loads() -> Iterator[list[float]]:
    """The load averages of a minute while this lasts, every five seconds."""
    seen, over = [os.getloadavg()[0]], threading.Event()

    def look() -> None:
        while not over.wait(5):
            seen.append(os.getloadavg()[0])

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield seen
    finally:
        over.set()
        looking.join()


@contextmanager
def bench(work: Sequence[Work]) -> Iterator[Bench]:
    """The cluster and the GPUs, ended afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="gq-slurm-"))
    cluster = SlurmCluster(folder, nodes=2, gpus=4, cpus=32, shards=SHARDS)
    try:
        with MockGpus() as gpus:
            cluster.start(60)
            yield Bench(cluster, gpus, work)
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.slurm")
    parser.add_argument("instances", type=Path, help="pai_instances.csv")
    parser.add_argument("--short", type=int, default=200)
    parser.add_argument("--long", type=int, default=20)
    parser.add_argument("--short-s", type=float, default=20.0)
    parser.add_argument("--long-s", type=float, default=200.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scaling", default="thrifty", choices=sorted(SCALING))
    parser.add_argument("--only", action="append")
    asked = parser.parse_args()
    if why := slurm_cluster.missing():
        print(why, file=sys.stderr)
        return 1
    work = drawn(asked.instances, asked.short, asked.long, asked.short_s, asked.long_s, asked.seed)
    results: list[Result] = []
    with bench(work) as at:
        ways: dict[str, Callable[[], list[float]]] = {
            "sbatch": lambda: at.sbatch("--gres=gpu:1"),
            "array": at.array,
            "shard": lambda: at.sbatch("--gres=shard:1"),
            "gpuq, all new": lambda: at.pilots(asked.scaling, known=False),
            "gpuq, kinds known": lambda: at.pilots(asked.scaling, known=True),
        }
        if find_spec("hyperqueue"):
            ways["hyperqueue"] = lambda: at.hyperqueue(part=1)
            ways["hyperqueue, halves"] = lambda: at.hyperqueue(part=1 / SHARDS)
        for name, way in ways.items():
            if asked.only and name not in asked.only:
                continue
            at.cluster.run("sdiag", "--reset")
            at.held = None
            with loads() as seen:
                took = way()
            rpcs = at.rpcs()
            whole = name.startswith("hyperqueue")
            hours = at.gpus_of_cluster * max(took) / 3600 if whole else at.hours(shards=name == "shard")
            mean = sum(took) / max(1, len(took))
            load = f"{min(seen):.0f} to {max(seen):.0f}, mean {statistics.mean(seen):.1f}"
            split = None if at.held is None else str(at.held)
            results.append(Result(name, hours, max(took, default=0.0), mean, len(work) - len(took), rpcs, split, load))
            print(results[-1], flush=True)
            BUILD.mkdir(exist_ok=True)
            said: dict[str, Any] = {
                "short": asked.short,
                "long": asked.long,
                "seed": asked.seed,
                "short_s": asked.short_s,
                "long_s": asked.long_s,
            }
            (BUILD / "bench-slurm.json").write_text(
                json.dumps({**said, "results": [asdict(one) for one in results]}, indent=1)
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
