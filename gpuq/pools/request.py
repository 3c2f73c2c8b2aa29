"""The Slurm job that a pilot is: its script and the options of sbatch."""

from __future__ import annotations

import shlex
import sys
from math import ceil
from pathlib import Path

from gpuq.pools.pool import Pool

# Slurm signals the pilot so long before the end of its time, so that jobs can save their work.
NOTICE_S = 60


def script(folder: Path) -> str:
    """The batch script: the pilot, by the interpreter that runs this."""
    command = shlex.join([sys.executable, "-P", "-m", "gpuq_workers.pilot", str(folder)])
    return f"#!/bin/sh\nexec {command}\n"


def options(pool: Pool, folder: Path) -> list[str]:
    """The options of sbatch. The pool's own come last and override these."""
    wanted = [
        f"--job-name=gpuq-{pool.name}",
        f"--output={folder / 'slurm.out'}",
        f"--chdir={folder}",
        f"--time={ceil(pool.time_limit_s / 60)}",
        f"--signal=B:TERM@{NOTICE_S}",
        "--nodes=1",
        "--ntasks=1",
        "--no-requeue",
        # Jobs bring the environment that they were submitted with.
        "--export=HOME,USER,PATH,LANG",
    ]
    if pool.gpus:
        wanted.append(f"--gres=gpu:{pool.gpus}")
    return [*wanted, *pool.sbatch]
