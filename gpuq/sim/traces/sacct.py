"""Jobs that a site's Slurm ran, from what `sacct --parsable2` printed: each with the GPUs and the time that it was charged for.

Where Slurm gathers GPU accounting (AccountingStorageTRES with gres/gpuutil), the steps of a job say how busy its GPUs were.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from statistics import median

from gpuq.errors import BadInput
from gpuq.sim.traces.requests import ImportedTrace, TraceJob, imported
from gpuq.sim.traces.table import DEFAULT_USER

FIELDS = "JobID,JobName,User,Submit,Start,ElapsedRaw,State,AllocTRES,TRESUsageInAve"
_NEEDED = ("JobID", "Submit", "Start", "ElapsedRaw", "AllocTRES")
# Some sites set another SLURM_TIME_FORMAT for their users.
_FIX = (
    "Write the file with: SLURM_TIME_FORMAT=standard sacct --parsable2 --allusers --starttime=now-30days "
    f"--format={FIELDS}"
)
_NOT_COUNTED = (
    "Does your site count GPUs? `scontrol show config | grep AccountingStorageTRES` must name gres/gpu. "
    "Else write your own table: docs/simulate.md has its columns."
)
_GPUS = re.compile(r"gres/gpu(:[^=,]+)?=(\d+)")
_UTILIZATION = re.compile(r"gres/gpuutil(?::[^=,]+)?=(\d+)")
# Not REQUEUED: as a run before the last one is called, which has ended.
_GOES_ON = ("RUNNING", "SUSPENDED", "RESIZING")
# No job of Slurm's accounting is as old: a clock was wrong.
_LONGEST_S = 10 * 365.25 * 86_400

Row = Mapping[str, str]


@dataclass
class _LeftOut:
    """Rows that are not played, by why."""

    unended: int = 0
    torn: int = 0
    """With more columns or fewer than the first line."""
    undated: int = 0
    without_gpus: int = 0

    def notes(self) -> list[str]:
        """For people."""
        return [
            f"left out: {count} {what}"
            for count, what in (
                (self.unended, "jobs that have not ended"),
                (
                    self.torn,
                    "lines with more columns or fewer than the first, as of a job whose name has a `|` or a new line",
                ),
                (self.undated, "jobs without a time of submission and of start that can be read"),
            )
            if count
        ]


def read(path: Path, most_devices: int) -> tuple[ImportedTrace, int]:
    """The jobs of the file that had GPUs and have ended, and how many GPUs those of at most `most_devices` had on average,
    rounded up. Raises BadInput.

    On as many GPUs as they had at most, almost no job would have to share.
    """
    left_out = _LeftOut()
    rows = _rows(path, left_out)
    found = [job for row, steps in rows if (job := _job(row, steps, left_out)) is not None]
    if not found:
        raise _nothing_to_play(path, rows, left_out)
    starts, jobs = zip(*found, strict=True)
    span_s = max(start + job.duration_s for start, job in found) - min(starts)
    if span_s > _LONGEST_S:
        usual = median(starts)
        odd = datetime.fromtimestamp(max(starts, key=lambda start: abs(start - usual)), UTC).astimezone()
        raise BadInput(
            f"{path}: its jobs ran over {span_s / _LONGEST_S * 10:.0f} years, so a clock was wrong.",
            fix=f"Leave out the job that started at {odd:%Y-%m-%dT%H:%M:%S}.",
        )
    notes = [f"{len(jobs)} jobs with GPUs of Slurm's accounting, as long as they ran there", *left_out.notes()]
    if unknown := sum(job.share_pct is None for job in jobs):
        notes.append(f"{unknown} jobs do not say how busy their GPUs were")
    charged_s = sum(job.work_s for job in jobs)
    notes.append(f"Slurm charged {charged_s / 3600:,.1f} GPU-hours, {charged_s / span_s:.1f} GPUs on average")
    # A wider one is not played, so it says nothing of how many GPUs the others need.
    played = [job for job in jobs if job.devices <= most_devices]
    average = ceil(sum(job.work_s for job in played) / span_s)
    return imported(path.name, jobs, notes), max(average, *(job.devices for job in played), 1)


def _job(row: Row, steps: Sequence[Row], left_out: _LeftOut) -> tuple[float, TraceJob] | None:
    """When the job started (Unix seconds), and the job; None where it is left out."""
    gpus, seconds = _gpus(row["AllocTRES"]), row["ElapsedRaw"]
    if not gpus or not seconds.isdecimal() or int(seconds) == 0:
        left_out.without_gpus += not gpus
        return None
    if (row.get("State") or "").startswith(_GOES_ON):
        left_out.unended += 1
        return None
    submitted_at, started_at = _moment(row["Submit"]), _moment(row["Start"])
    if submitted_at is None or started_at is None:
        left_out.undated += 1
        return None
    used = [int(found) for step in (row, *steps) for found in _UTILIZATION.findall(step.get("TRESUsageInAve") or "")]
    user = row.get("User") or DEFAULT_USER
    return started_at, TraceJob(
        submitted_at,
        float(seconds),
        gpus,
        user,
        owner=user,
        kind=f"{user} {row['JobName']} x{gpus}" if row.get("JobName") else None,
        # Of several GPUs Slurm gives the sum.
        share_pct=min(100.0, max(used) / gpus) if used else None,
        preemptible=False,
    )


def _nothing_to_play(path: Path, rows: Sequence[tuple[Row, Sequence[Row]]], left_out: _LeftOut) -> BadInput:
    if left_out.undated:
        bad = next(row for row, _ in rows if _moment(row["Submit"]) is None or _moment(row["Start"]) is None)
        times = f"the Submit time `{bad['Submit']}` and the Start time `{bad['Start']}`"
        return BadInput(f"{path}: job {bad['JobID']} has {times}.", fix=_FIX)
    if rows and left_out.without_gpus == len(rows):
        return BadInput(
            f"{path}: there is no job to play: AllocTRES names no gres/gpu for any of them.", fix=_NOT_COUNTED
        )
    why = "".join(f"; {note}" for note in left_out.notes())
    return BadInput(f"{path}: there is no job to play that had GPUs, and ended{why}.", fix=_FIX)


def _rows(path: Path, left_out: _LeftOut) -> list[tuple[Row, list[Row]]]:
    """The row of each run of a job, with those of its steps, which follow it. With `--duplicates` a job that was requeued has
    several. Raises BadInput."""
    try:
        # Names of jobs are in any encoding, and some editors begin a file with a mark of theirs.
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            lines = csv.DictReader(file, delimiter="|", quoting=csv.QUOTE_NONE)
            columns, rows = lines.fieldnames or (), list(lines)
    except (OSError, csv.Error) as error:
        raise BadInput(f"{path} cannot be read: {error}.", fix=_FIX) from error
    if missing := [name for name in _NEEDED if name not in columns]:
        raise BadInput(f"{path} has no column {', '.join(missing)}.", fix=_FIX)
    runs: list[tuple[Row, list[Row]]] = []
    last: dict[str, list[Row]] = {}
    for row in rows:
        if None in row or None in row.values():
            left_out.torn += 1
            continue
        job, dot, _ = row["JobID"].partition(".")
        if not dot:
            last[job] = []
            runs.append((row, last[job]))
        elif job in last:
            last[job].append(row)
    return runs


def _gpus(tres: str) -> int:
    """GPUs in a list such as `cpu=8,gres/gpu:h100=2,gres/gpu=2`, where Slurm may give the sum, the parts by type, or both."""
    found = _GPUS.findall(tres)
    total = [int(count) for kind, count in found if not kind]
    return total[0] if total else sum(int(count) for _, count in found)


def _moment(text: str) -> float | None:
    """In Unix seconds, as which Slurm also writes it where SLURM_TIME_FORMAT is `%s`; None for `Unknown` and other words."""
    try:
        at = float(text) if text.isdecimal() else datetime.fromisoformat(text).timestamp()
        datetime.fromtimestamp(at, UTC)
    except (ValueError, OverflowError):  # no time, or one of no calendar
        return None
    return at
