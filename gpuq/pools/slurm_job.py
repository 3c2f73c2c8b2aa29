"""The Slurm job that a pilot is: its script and the options of sbatch."""

from __future__ import annotations

import shlex
import sys
from math import ceil
from pathlib import Path

from gpuq.messages.pilot import NOTICE_S
from gpuq.pools.pool import Pool
from gpuq.pools.sbatch_options import speak_of_gpus


def script(folder: Path) -> str:
    """The batch script: the pilot, by the interpreter that runs this."""
    command = shlex.join([sys.executable, "-P", "-m", "gpuq_workers.pilot", str(folder)])
    return f"#!/bin/sh\nexec {command}\n"


def options(pool: Pool, gpus: int, folder: Path) -> list[str]:
    """The options of sbatch for a pilot with so many GPUs. The pool's own come last and override these."""
    wanted = [
        f"--job-name=gpuq-{pool.name}",
        f"--output={folder / 'slurm.out'}",
        f"--chdir={folder}",
        f"--time={ceil(pool.time_limit_s / 60)}",
        f"--signal=B:TERM@{NOTICE_S}",
        "--nodes=1",
        "--ntasks=1",
        "--no-requeue",
        # Not a list of names: for one, the node starts a login shell for the environment first, which takes seconds or minutes.
        "--export=ALL",
    ]
    if gpus and not speak_of_gpus(pool.sbatch):
        wanted.append(f"--gres=gpu:{gpus}")
    return [*wanted, *pool.sbatch]
