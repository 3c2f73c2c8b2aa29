"""Who came when, and asked for what: the noun that every importer gives and the simulator plays.

Seconds count from the first submission. What a trace does not say is None. Ignores what the jobs are made of: the world
knows that, by their kind.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuq.core.state.job import JobId


@dataclass(frozen=True, slots=True)
class JobArrival:
    """One job. `duration_s` is how long it runs with its `devices` to itself; the core never sees it.

    `deadline_s` counts from the trace's start too. `declared_memory` is bytes on each device, as its submitter said.
    """

    job: JobId
    submit_s: float
    duration_s: float
    devices: int
    kind: str
    owner: str
    priority: int = 0
    deadline_s: float | None = None
    declared_memory: int | None = None
    most_devices: int | None = None
    preemptible: bool = False


@dataclass(frozen=True)
class Trace:
    """Arrivals in the order of their submission; `notes` say, for people, how they came about and what was left out."""

    name: str
    arrivals: tuple[JobArrival, ...]
    notes: tuple[str, ...] = ()
