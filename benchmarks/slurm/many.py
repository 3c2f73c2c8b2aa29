"""`python -m benchmarks.slurm.many`: thousands of jobs through pilots, or on eight devices of gpuq's own (`--own`).

How long a pass takes, how long the queue takes to be shown, how soon a device that is free has its next job, and how often
Slurm's controller is called. A pass is sampled twice a second, so only long ones can be missed by few. Needs what the comparison
needs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.slurm.__main__ import Bench, bench
from gpuq.cli.client import HttpClient
from tests.support import slurm_cluster

GPUQ = [sys.executable, "-P", "-c", "import sys; from gpuq.cli.main import main; sys.exit(main())"]
PERCENTILES = (50, 99, 100)


@contextmanager
def site(at: Bench, *, own: bool) -> Iterator[tuple[dict[str, str], Path]]:
    """The environment and the home of a gpuq with pilots, or with the emulated GPUs as its own."""
    home = Path(tempfile.mkdtemp(prefix="gq-"))
    env = {**at.env, **at.gpus.environ, "GPUQ_HOME": str(home / "h"), "HOME": str(home)}
    pool = ["pool", "add", "slurm", "--gpus=4", "--max=2", "--idle=1m", "--time=60m"]
    try:
        subprocess.run([*GPUQ, *(["up", "-d"] if own else pool)], env=env, cwd=home, check=True)
        yield env, home
    finally:
        subprocess.run([*GPUQ, "down", "--stop-jobs"], env=env, cwd=home, check=False)
        shutil.rmtree(home, ignore_errors=True)


def timed(action: Callable[[], object]) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    action()
    return (time.perf_counter() - began) * 1000


def figures(values: list[float]) -> str:
    """Their median, 99th percentile and most."""
    ordered = sorted(values)
    return " ".join(f"{ordered[max(0, -(-len(ordered) * one // 100) - 1)]:.1f}" for one in PERCENTILES)


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.slurm.many")
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each job")
    parser.add_argument(
        "--for", type=float, default=500.0, dest="most_s", help="seconds; the jobs that are left are stopped"
    )
    parser.add_argument("--own", action="store_true")
    asked = parser.parse_args()
    if why := slurm_cluster.missing():
        print(why, file=sys.stderr)
        return 1
    with bench([]) as at, site(at, own=asked.own) as (env, home):
        at.cluster.run("sdiag", "--reset")
        os.environ["GPUQ_HOME"] = env["GPUQ_HOME"]
        client = HttpClient(None)
        words = ["submit", f"--array=1-{asked.jobs}", "--", "sleep", str(asked.seconds)]
        submit_s = timed(lambda: subprocess.run([*GPUQ, *words], env=env, cwd=home, check=True)) / 1000
        passes: list[float] = []
        lists: list[float] = []
        began = time.time()
        ended = 0.0
        while ended < asked.jobs and time.time() < began + asked.most_s:
            time.sleep(0.5)
            said = client.piece("/metrics")[0].decode()
            passes += [1000 * float(one) for one in re.findall(r"(?m)^gpuq_schedule_pass_seconds (\S+)", said)]
            lists.append(timed(lambda: client.get("/api/v1/jobs", state="pending", owner="all", limit=100)))
            ended = sum(float(one) for one in re.findall(r"(?m)^gpuq_jobs_finished_total\{.*\} (\S+)", said))
        took_s = time.time() - began
        report = {
            "where": "own" if asked.own else "pilots",
            "submit_s": round(submit_s, 2),
            "ended": ended,
            "per_s": round(ended / took_s, 2),
            "pass_ms": figures(passes),
            "queue_ms": figures(lists),
            "rpcs": None if asked.own else at.rpcs(),
            "load": os.getloadavg()[0],
        }
        print(json.dumps(report), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
