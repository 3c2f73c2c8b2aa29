"""What the time of pilots went into that Slurm charged: until the first job, with jobs, between jobs, and after the last one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Span = tuple[float, float]
"""Beginning and end, in Unix seconds."""


@dataclass(frozen=True)
class Held:
    """Seconds of all pilots together. `job_s` is the time of the jobs, so `job_s / busy_s` had a device at a time."""

    pilots: int
    before_s: float
    busy_s: float
    between_s: float
    after_s: float
    job_s: float

    def __str__(self) -> str:
        at_once = self.job_s / (self.busy_s or 1)
        return (
            f"{self.pilots} pilots: {self.before_s:.0f} s before the first job, {self.busy_s:.0f} s with {at_once:.1f} jobs at a "
            f"time, {self.between_s:.0f} s between jobs, {self.after_s:.0f} s after the last"
        )


def held(pilots: Mapping[str, Span], jobs: Sequence[tuple[str, Span]]) -> Held:
    """Of pilots with one GPU each, by name, and the attempts on them."""
    before_s = busy_s = between_s = after_s = job_s = 0.0
    for name, (began, ended) in pilots.items():
        own = sorted(span for host, span in jobs if host == name)
        if not own:
            after_s += ended - began
            continue
        before_s += own[0][0] - began
        until = own[0][0]
        for start, end in own:
            between_s += max(0.0, start - until)
            busy_s += max(0.0, end - max(start, until))
            until = max(until, end)
            job_s += end - start
        after_s += ended - until
    return Held(len(pilots), before_s, busy_s, between_s, after_s, job_s)
