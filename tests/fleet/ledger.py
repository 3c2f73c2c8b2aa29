"""What the jobs of a fleet wrote down of their own runs: see ledger_job.py."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

FILE = "/srv/ledger"
JOB = ("/usr/bin/python3.11", "-ISE", "/opt/gpuq-src/tests/fleet/ledger_job.py")


@dataclass
class Run:
    """One process of a job. Times are seconds since the boot of the machine; `ended` is None for one that runs or was killed."""

    job: int
    attempt: int
    host: str
    pid: int
    started: float
    last: float
    ended: float | None = None


def runs(files: Iterable[Path], jobs: Collection[int] | None = None) -> dict[int, list[Run]]:
    """The runs of each job, in the order of their starts, from the ledgers of all hosts."""
    found: dict[tuple[int, int, str, int], Run] = {}
    for file in files:
        for line in file.read_text().splitlines() if file.exists() else ():
            what, job, attempt, host, at, pid = line.split()
            if jobs is not None and int(job) not in jobs:
                continue
            key = (int(job), int(attempt), host, int(pid))
            run = found.setdefault(key, Run(*key, started=float(at), last=float(at)))
            run.last = float(at)
            if what == "end":
                run.ended = float(at)
    by_job = defaultdict(list)
    for run in sorted(found.values(), key=lambda run: run.started):
        by_job[run.job].append(run)
    return dict(by_job)


def faults(ledger: dict[int, list[Run]], jobs: Iterable[int]) -> list[str]:
    """What is wrong with jobs that should have run once to their ends."""
    found = []
    for job in jobs:
        mine = ledger.get(job, [])
        if not mine:
            found.append(f"job {job} never ran")
        elif mine[-1].ended is None:
            found.append(f"job {job} did not come to its end: {mine}")
        found += overlaps(mine)
        if len(mine) > 1:
            found.append(f"job {job} ran {len(mine)} times: {mine}")
    return found


def overlaps(mine: list[Run]) -> list[str]:
    """The pairs of runs of one job that were there at the same time."""
    pairs = pairwise(mine)
    return [f"runs of job {a.job} overlap: {a} and {b}" for a, b in pairs if b.started < a.last]
