"""Scripted workloads: real processes that count steps through the hook, and cost next to no processor time."""

from __future__ import annotations

import sys
from pathlib import Path

from gpuq.lab.campaign.ledger import MEASURED, MeasuredJob, MeasuredRun
from gpuq.lab.campaign.workload_list import WorkloadJob

# A step takes a given time, and twice that while another process writes its marks in the same folder: in a pair each has a
# slowdown of 2.
_CONTENDING = """
import os, sys, time
from pathlib import Path
import gpuq
folder, seconds = Path(sys.argv[1]), float(sys.argv[2])
own = folder / str(os.getpid())
while True:
    own.touch()
    beats = [entry.stat().st_mtime for entry in os.scandir(folder) if entry.name != own.name]
    time.sleep(seconds * (2 if any(time.time() - beat < 10 * seconds for beat in beats) else 1))
    gpuq.step()
"""
_CRASH = "import gpuq; gpuq.step(); raise ValueError('no such layer')"
_HUNGRY = "import gpuq; gpuq.step(); raise MemoryError('Unable to allocate 9 TiB')"
_SILENT = "import time; time.sleep(600)"
_SHORT = "import gpuq; gpuq.step(); print('{\"steps\": 1}')"


def contending(folder: Path, seconds: float = 0.004, model: str = "contending", size: int = 1) -> WorkloadJob:
    folder.mkdir(exist_ok=True)
    return _job(model, size, _CONTENDING, str(folder), str(seconds))


def crashing() -> WorkloadJob:
    return _job("crashing", 1, _CRASH)


def hungry() -> WorkloadJob:
    return _job("hungry", 1, _HUNGRY)


def silent() -> WorkloadJob:
    return _job("silent", 1, _SILENT)


def short() -> WorkloadJob:
    return _job("short", 1, _SHORT)


def _job(model: str, size: int, program: str, *words: str) -> WorkloadJob:
    return WorkloadJob(model, size, ("{python}", "-c", program, *words), "scripted")


def as_list(*jobs: WorkloadJob) -> str:
    """The TOML of these jobs, as a person would write it."""
    tables = []
    for job in jobs:
        command = ", ".join("'''" + word + "'''" for word in job.command)
        tables.append(
            f"[[workload]]\nname = '{job.model}'\nfamily = '{job.family}'\n"
            f"command = [{command}]\nbatch_sizes = [{job.batch_size}]\n"
        )
    return "\n".join(tables)


def a_job(model: str = "net", size: int = 8, family: str = "pictures", script: str = "train.py") -> WorkloadJob:
    return WorkloadJob(model, size, (sys.executable, script, str(size)), family)


def a_run(
    *jobs: WorkloadJob, outcome: str = MEASURED, width: float | None = 0.01, at: float = 1e9, **shown: object
) -> MeasuredRun:
    """A run of one job alone, or of two; each was slowed by 1.5 there. `shown` goes to every part."""
    alone = len(jobs) == 1
    values: dict[str, object] = {
        "alone_rate": 20.0,
        **(
            {"alone_half_width": width}
            if alone
            else {"slowdown": 1.5, "slowdown_half_width": width, "shared_rate": 40 / 3}
        ),
        **shown,
    }
    parts = tuple(
        MeasuredJob(job=job.name, digest=job.digest, **(values if outcome == MEASURED else {}))  # type: ignore[arg-type]
        for job in jobs
    )
    return MeasuredRun(
        device="box/cpu0",
        device_type="cpu-1",
        sharing="time-slicing",
        at=at,
        seconds=10.0,
        outcome=outcome,
        parts=parts,
        reason=None if outcome == MEASURED else "why",
        steady=outcome == MEASURED,
        values=6,
    )
