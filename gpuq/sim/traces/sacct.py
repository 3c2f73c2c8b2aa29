"""Jobs that a site's Slurm ran, from what `sacct --parsable2` printed: each with the GPUs and the time that it was charged for.

Where Slurm gathers GPU accounting (AccountingStorageTRES with gres/gpuutil), the steps of a job say how busy its GPUs were.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from math import ceil
from pathlib import Path

from gpuq.errors import BadInput
from gpuq.sim.traces.requests import ImportedTrace, TraceJob, imported
from gpuq.sim.traces.table import DEFAULT_USER

FIELDS = "JobID,JobName,User,Submit,Start,ElapsedRaw,State,AllocTRES,TRESUsageInAve"
_NEEDED = ("JobID", "Submit", "Start", "ElapsedRaw", "AllocTRES")
_FIX = f"Write the file with: sacct --parsable2 --allusers --starttime=now-30days --format={FIELDS}"
_GPUS = re.compile(r"gres/gpu(:[^=,]+)?=(\d+)")
_UTILIZATION = re.compile(r"gres/gpuutil(?::[^=,]+)?=(\d+)")


def read(path: Path) -> tuple[ImportedTrace, int]:
    """The jobs of the file that had GPUs and have ended, and how many GPUs they had on average, rounded up. Raises BadInput.

    On as many GPUs as they had at most, almost no job would have to share.
    """
    jobs: list[TraceJob] = []
    starts: list[float] = []
    unended = unknown = 0
    for row, steps in _rows(path):
        gpus, seconds = _gpus(row["AllocTRES"]), row["ElapsedRaw"]
        if not gpus or not seconds.isdecimal() or int(seconds) == 0:
            continue
        if row.get("State", "").startswith(("RUNNING", "SUSPENDED", "REQUEUED", "RESIZING")):
            unended += 1
            continue
        starts.append(_moment(path, row, "Start"))
        used = [
            int(found) for step in (row, *steps) for found in _UTILIZATION.findall(step.get("TRESUsageInAve") or "")
        ]
        unknown += not used
        user = row.get("User") or DEFAULT_USER
        kind = f"{user} {row['JobName']} x{gpus}" if row.get("JobName") else None
        # Of several GPUs Slurm gives the sum.
        share = min(100.0, max(used) / gpus) if used else None
        jobs.append(
            TraceJob(
                _moment(path, row, "Submit"), float(seconds), gpus, user, owner=user, kind=kind, share_pct=share,
                preemptible=False,
            )
        )  # fmt: skip
    notes = [f"{len(jobs)} jobs with GPUs of Slurm's accounting, as long as they ran there"]
    if unended:
        notes.append(f"left out: {unended} jobs that have not ended")
    if unknown:
        notes.append(f"{unknown} jobs do not say how busy their GPUs were")
    trace = imported(path.name, jobs, notes)
    charged_s = sum(job.work_s for job in jobs)
    span_s = max(start + job.duration_s for start, job in zip(starts, jobs, strict=True)) - min(starts)
    gpus = max(ceil(charged_s / span_s), *(job.devices for job in jobs), 1)
    note = f"Slurm charged {charged_s / 3600:,.1f} GPU-hours, {charged_s / span_s:.1f} GPUs on average"
    return replace(trace, notes=(*trace.notes, note)), gpus


def _rows(path: Path) -> list[tuple[Mapping[str, str], list[Mapping[str, str]]]]:
    """Each job's row, with those of its steps."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="|", quoting=csv.QUOTE_NONE))
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read: {error}.", fix=_FIX) from error
    missing = [name for name in _NEEDED if not rows or rows[0].get(name) is None]
    if missing:
        raise BadInput(f"{path} has no column {', '.join(missing)}.", fix=_FIX)
    jobs: dict[str, Mapping[str, str]] = {}
    steps: dict[str, list[Mapping[str, str]]] = defaultdict(list)
    for row in rows:
        job, dot, _ = row["JobID"].partition(".")
        if dot:
            steps[job].append(row)
        else:
            jobs[job] = row
    return [(row, steps[job]) for job, row in jobs.items()]


def _gpus(tres: str) -> int:
    """GPUs in a list such as `cpu=8,gres/gpu:h100=2,gres/gpu=2`, where Slurm may give the sum, the parts by type, or both."""
    found = _GPUS.findall(tres)
    total = [int(count) for kind, count in found if not kind]
    return total[0] if total else sum(int(count) for _, count in found)


def _moment(path: Path, row: Mapping[str, str], name: str) -> float:
    try:
        return datetime.fromisoformat(row[name]).timestamp()
    except ValueError:
        raise BadInput(f"{path}: job {row['JobID']} has the {name} time `{row[name]}`.", fix=_FIX) from None
