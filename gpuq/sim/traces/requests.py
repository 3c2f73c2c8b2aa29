"""Jobs as a trace describes them, and what every imported trace goes through: owners, kinds, load.

Many traces lack owners and kinds. They are assigned by a seeded rule, arrivals are scaled to a load, and each rule that was
applied is returned as a note.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from numpy.random import Generator

from gpuq.errors import BadInput

# With fewer jobs of a kind the spread of their durations says little.
_OFTEN = 5
_JOBS_PER_OWNER = 100
_BURST_S = 300.0


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job of a trace. Times are seconds on the trace's clock; `group` is its virtual cluster, or what else separates users.

    `share_pct`: the part of a device that it asks for or keeps busy, where the trace says so. `preemptible` None: as the
    `ScenarioOptions` say.
    """

    submit_s: float
    duration_s: float
    devices: int
    group: str
    owner: str | None = None
    kind: str | None = None
    share_pct: float | None = None
    deadline_s: float | None = None
    priority: int = 0
    declared_memory: int | None = None
    preemptible: bool | None = None

    @property
    def work_s(self) -> float:
        """Device-seconds of work."""
        return self.duration_s * self.devices


@dataclass(frozen=True)
class ImportedTrace:
    """What an importer returns: jobs in order of submission, and notes for people."""

    name: str
    jobs: tuple[TraceJob, ...]
    notes: tuple[str, ...] = ()


def imported(name: str, jobs: Iterable[TraceJob], notes: Sequence[str]) -> ImportedTrace:
    """The jobs in order of submission. Raises BadInput for an empty trace."""
    found = tuple(sorted(jobs, key=lambda job: job.submit_s))
    if not found:
        raise BadInput(f"{name}: there is no job to play.", fix="Name a trace with jobs that ran on a device.")
    return ImportedTrace(name, found, tuple(notes))


def narrow(jobs: Sequence[TraceJob], most_devices: int) -> tuple[list[TraceJob], list[str], float]:
    """The jobs of at most `most_devices` devices, a note on those left out, and their share of all device time. Raises BadInput
    where that leaves none."""
    kept = [job for job in jobs if job.devices <= most_devices]
    if not kept:
        raise BadInput(f"Every job wants more than {most_devices} devices.", fix="Play it on more devices.")
    wide = [job for job in jobs if job.devices > most_devices]
    notes = [f"left out: {of(wide, jobs)} want more than the {most_devices} devices of a host"] if wide else []
    return kept, notes, _share_of_time(wide, jobs)


def _share_of_time(some: Sequence[TraceJob], all_jobs: Sequence[TraceJob]) -> float:
    return sum(job.work_s for job in some) / sum(job.work_s for job in all_jobs)


def of(some: Sequence[TraceJob], all_jobs: Sequence[TraceJob]) -> str:
    """`some` as a part of `all_jobs`, in words."""
    time = _share_of_time(some, all_jobs)
    return f"{len(some)} jobs ({len(some) / len(all_jobs):.2%}, {time:.0%} of device time)"


def consecutive(jobs: Sequence[TraceJob], count: int, random: Generator) -> tuple[list[TraceJob], list[str]]:
    """`count` consecutive jobs from a drawn start, or all where there are no more."""
    if count >= len(jobs):
        return list(jobs), []
    first = int(random.integers(len(jobs) - count + 1))
    return list(jobs[first : first + count]), [f"jobs {first + 1} to {first + count} of {len(jobs)}: a drawn start"]


def from_zero(jobs: Sequence[TraceJob], factor: float = 1.0) -> list[TraceJob]:
    """Submission times from the first one, multiplied by `factor`; deadlines keep their distance from the submission."""
    first = jobs[0].submit_s
    moved = []
    for job in jobs:
        submit = (job.submit_s - first) * factor
        deadline = None if job.deadline_s is None else submit + job.deadline_s - job.submit_s
        moved.append(replace(job, submit_s=submit, deadline_s=deadline))
    return moved


def load_of(jobs: Sequence[TraceJob], devices: int) -> float | None:
    """Device-seconds asked for / device-seconds between first and last submission; None if all were submitted at once."""
    span = jobs[-1].submit_s - jobs[0].submit_s
    return sum(job.work_s for job in jobs) / (devices * span) if span > 0 else None


def scaled(jobs: Sequence[TraceJob], devices: int, load: float) -> tuple[list[TraceJob], str]:
    """Submission times multiplied so that the load is `load`, and a note that says so."""
    as_is = load_of(jobs, devices)
    found = from_zero(jobs, 1.0 if as_is is None else as_is / load)
    days = found[-1].submit_s / 86_400
    return found, (
        "all jobs come at one moment: the load cannot be set"
        if as_is is None
        else f"submission times multiplied by {as_is / load:.3g}: {load:.0%} of {devices} devices over {days:.1f} days"
    )


def owned(jobs: Sequence[TraceJob], random: Generator) -> list[TraceJob]:
    """The jobs with an owner and a kind where the trace has none.

    A group has one owner per hundred jobs; jobs of one group and device count less than five minutes apart have the same owner.
    A kind is owner, decade of duration, device count and share.
    """
    owners = {group: math.ceil(count / _JOBS_PER_OWNER) for group, count in Counter(j.group for j in jobs).items()}
    last: dict[tuple[str, int], tuple[float, str]] = {}
    found = []
    for job in jobs:
        owner = job.owner
        if owner is None:
            before, owner = last.get((job.group, job.devices), (-math.inf, ""))
            if job.submit_s - before > _BURST_S:
                owner = f"{job.group}-{int(random.integers(owners[job.group])) + 1}"
            last[job.group, job.devices] = (job.submit_s, owner)
        # A decade of duration is wide enough to be realistic: p90 / p50 within a kind is then 1.2 to 1.5 in the median of
        # Philly's kinds. Within user and group of PAI's production jobs it is 1.6 (five groups of five instances or more).
        decade = 10 ** math.floor(math.log10(max(1.0, job.duration_s)) + 1e-9)
        share = "" if job.share_pct is None else f" {job.share_pct:.0f}%"
        kind = job.kind or f"{owner} {decade}s x{job.devices}{share}"
        found.append(replace(job, owner=owner, kind=kind))
    return found


def about_kinds(before: Sequence[TraceJob], after: Sequence[TraceJob]) -> list[str]:
    """Notes on how owners and kinds were assigned, and on the spread of durations within a kind."""
    owners, kinds = len({job.owner for job in after}), Counter(job.kind for job in after)
    ratio, often = spread(after)
    drawn = any(job.owner is None for job in before)
    named = all(job.kind is not None for job in before)
    notes = [
        f"{owners} owners: one per {_JOBS_PER_OWNER} jobs of a group, which has what it submits less than five minutes apart "
        "with one device count"
        if drawn
        else f"{owners} owners, as in the trace",
        f"{len(kinds)} kinds, " + ("as in the trace" if named else "by owner, decade of duration and device count"),
    ]
    if ratio is not None:
        notes.append(
            f"{often:.0%} of jobs are of kinds with {_OFTEN} or more, whose durations have p90 / p50 of {ratio:.2f} in the median"
        )
    return notes


def spread(jobs: Sequence[TraceJob]) -> tuple[float | None, float]:
    """(median over kinds of p90 / p50 of their durations, share of jobs in those kinds); only kinds of five jobs or more
    count.
    """
    kinds: dict[str | None, list[float]] = defaultdict(list)
    for job in jobs:
        kinds[job.kind].append(job.duration_s)
    often = [sorted(found) for found in kinds.values() if len(found) >= _OFTEN]
    ratios = [found[math.ceil(0.9 * len(found)) - 1] / median(found) for found in often]
    return (median(ratios) if ratios else None), sum(map(len, often)) / len(jobs)
