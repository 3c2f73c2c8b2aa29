"""Microsoft's Philly cluster, 2017: arrivals, run times, GPU counts and virtual clusters (CC-BY-4.0; in Sia's reduction).

The file is `philly_jobs.csv`. A stretch is a number of consecutive jobs, chosen so that there are enough nights to learn in;
its notes say what was left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpuq.errors import BadInput
from gpuq.lab.public import rows
from gpuq.sim.traces.requests import ImportedTrace, TraceJob, imported, narrow, of

Numbers = NDArray[np.float64]
FILE = "philly_jobs.csv"
DAY_S = 86_400.0
# In the first two weeks 22 jobs were submitted, in the third 1,549.
_SPARSE_S = 14 * DAY_S
# In a stretch of two weeks the load means nothing if one of its jobs outlasts it: the longest ran 54 days.
LONGEST_S = 7 * DAY_S
# 1,500 jobs then bring 64 devices two weeks of work or more at 90% load, so that there are nights enough to learn in.
LEAST_HOURS = 13.0
# Work of long jobs at the end is done when no others are submitted any more, so the load that jobs meet is then much lower. At
# least this share of the work must be possible before the last submission.
LEAST_FELT = 0.85


@lru_cache(maxsize=1)
def jobs(data: Path) -> tuple[TraceJob, ...]:
    """All 82,247 jobs in order of submission. Cached, because a comparison of seeds reads it again and again."""
    found = (
        TraceJob(float(row["submit_s"]), float(row["duration_s"]), int(row["num_gpus"]), row["vc"])
        for row in rows(data / FILE)
    )
    return tuple(sorted(found, key=lambda job: job.submit_s))


def stretch(data: Path, count: int, most_devices: int, seed: int) -> ImportedTrace:
    """`count` consecutive jobs of those that fit on a host and end within a week. Raises BadInput where there are none."""
    all_jobs = jobs(data)
    fitting, left_out, _ = narrow(all_jobs, most_devices)
    kept = [job for job in fitting if job.duration_s <= LONGEST_S]
    long = [job for job in fitting if job.duration_s > LONGEST_S]
    found, rule = _stretch(kept, count, seed)
    days = f"left out: {of(long, all_jobs)} run for more than {LONGEST_S / DAY_S:g} days"
    return imported(f"philly seed {seed}", found, [*left_out, days, rule])


def _stretch(kept: Sequence[TraceJob], count: int, seed: int) -> tuple[list[TraceJob], str]:
    """The stretch of this seed. Stretches do not overlap; seeds take them in turn, in one fixed shuffled order."""
    starts = _starts(kept, count)
    if not starts:
        raise BadInput(f"no {count} consecutive Philly jobs bring enough work.", fix="Ask for fewer: 1500 is usual.")
    first = starts[np.random.default_rng(0).permutation(len(starts))[(seed - 1) % len(starts)]]
    found = list(kept[first : first + count])
    days = [job.submit_s / DAY_S for job in (found[0], found[-1])]
    return found, (
        f"jobs {first + 1} to {first + count} of the rest, days {days[0]:.2f} to {days[1]:.2f}: one of the {len(starts)} "
        f"stretches side by side, after the sparse first two weeks, whose jobs bring {LEAST_HOURS:g} device-hours each or more "
        f"({_hours(found):.1f} here, {_hours(kept):.1f} over all), {LEAST_FELT:.0%} of them before the last submission"
    )


def _starts(kept: Sequence[TraceJob], count: int) -> list[int]:
    submits = np.array([job.submit_s for job in kept])
    durations = np.array([job.duration_s for job in kept])
    devices = np.array([job.devices for job in kept])
    done = np.concatenate(([0.0], np.cumsum(durations * devices)))
    enough = done[count:] - done[:-count] >= LEAST_HOURS * 3600 * count
    found: list[int] = []
    for first in np.flatnonzero(enough & (submits[: len(enough)] >= _SPARSE_S)).tolist():
        here = slice(first, first + count)
        free = not found or first >= found[-1] + count
        if free and _felt(submits[here], durations[here], devices[here]) >= LEAST_FELT:
            found.append(first)
    return found


def _felt(submits: Numbers, durations: Numbers, devices: Numbers) -> float:
    """The share of the work that would be done by the last submission, at 90% of 64 devices, if each job started at once."""
    since = submits - submits[0]
    work = float(durations @ devices)
    span = work / (64 * 0.9)
    left = span - since * (span / since[-1] if since[-1] > 0 else 0.0)
    return float(np.minimum(durations, left) @ devices) / work


def _hours(jobs: Sequence[TraceJob]) -> float:
    return sum(job.work_s for job in jobs) / len(jobs) / 3600
