"""Microsoft's Philly cluster, 2017: arrivals, run times, GPU counts and virtual clusters (CC-BY-4.0; in Sia's reduction).

Arrives: a folder with `philly_jobs.csv`. Leaves: its jobs, or a stretch of consecutive ones, and notes on what was left out.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from gpuq.errors import BadInput
from gpuq.learn.public import rows
from gpuq.sim.traces.asked import Asked

FILE = "philly_jobs.csv"
DAY_S = 86_400.0
# In the first two weeks 22 jobs came, in the third 1,549.
_SPARSE_S = 14 * DAY_S
# A load says nothing of a stretch of two weeks when one of its jobs outlasts it: the longest ran 54 days.
LONGEST_S = 7 * DAY_S
# 1,500 jobs then bring 64 devices two weeks at 90% of work or more, so that there are nights enough to learn in.
LEAST_HOURS = 13.0


def jobs(data: Path) -> list[Asked]:
    """All 82,247, first come first."""
    found = [
        Asked(float(row["submit_s"]), float(row["duration_s"]), int(row["num_gpus"]), row["vc"])
        for row in rows(data / FILE)
    ]
    return sorted(found, key=lambda job: job.submit_s)


def usable(everyone: Sequence[Asked], most_devices: int) -> tuple[list[Asked], list[str]]:
    """Those of no more devices than a host has, and of no more than seven days; and what was left out."""
    kept = [job for job in everyone if job.devices <= most_devices and job.duration_s <= LONGEST_S]
    wide = [job for job in everyone if job.devices > most_devices]
    long = [job for job in everyone if job.devices <= most_devices and job.duration_s > LONGEST_S]
    return kept, [
        f"left out: {len(wide)} jobs of more than {most_devices} devices ({_share(wide, everyone)})",
        f"left out: {len(long)} jobs of more than {LONGEST_S / DAY_S:g} days ({_share(long, everyone)})",
    ]


def stretch(kept: Sequence[Asked], count: int, seed: int) -> tuple[list[Asked], list[str]]:
    """`count` consecutive jobs after the sparse weeks, with `LEAST_HOURS` device-hours a job or more: the seed's own.

    Stretches do not overlap; seeds take them in turn, in an order shuffled once for all. Raises BadInput where there is none.
    """
    starts = _starts(kept, count)
    if not starts:
        raise BadInput(
            f"no {count} consecutive Philly jobs bring enough work.", fix="Ask for fewer jobs: 1500 is usual."
        )
    first = random.Random("stretches").sample(starts, len(starts))[(seed - 1) % len(starts)]
    found = list(kept[first : first + count])
    days = [job.submit_s / DAY_S for job in (found[0], found[-1])]
    return found, [
        f"jobs {first + 1} to {first + count} of these, days {days[0]:.2f} to {days[1]:.2f}: one of the {len(starts)} stretches "
        f"side by side, after the sparse first two weeks, whose jobs bring {LEAST_HOURS:g} device-hours each or more "
        f"({_work(found) / count / 3600:.1f} here, {_work(kept) / len(kept) / 3600:.1f} over all)"
    ]


def _starts(kept: Sequence[Asked], count: int) -> list[int]:
    done = [0.0, *accumulate(job.duration_s * job.devices for job in kept)]
    found: list[int] = []
    for first in range(len(kept) - count + 1):
        free = not found or first >= found[-1] + count
        if (
            free
            and kept[first].submit_s >= _SPARSE_S
            and done[first + count] - done[first] >= LEAST_HOURS * 3600 * count
        ):
            found.append(first)
    return found


def _work(jobs: Sequence[Asked]) -> float:
    return sum(job.duration_s * job.devices for job in jobs)


def _share(some: Sequence[Asked], everyone: Sequence[Asked]) -> str:
    return f"{len(some) / len(everyone):.2%} of jobs, {_work(some) / _work(everyone):.0%} of device time"
