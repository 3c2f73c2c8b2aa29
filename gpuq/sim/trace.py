"""A trace: when each job was submitted, how long it runs alone, and what it asks for. Importers make it, the simulator plays
it.

Seconds count from the first submission. What a trace does not give is None. What the jobs are made of is not part of it: the
world has that, by their kind.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuq.core.state.job import JobId


@dataclass(frozen=True, slots=True)
class JobArrival:
    """One job. `duration_s` is how long it runs with its `devices` to itself, which the core never sees.

    `deadline_s` counts from the trace's start, like `submit_s`. `declared_memory` is bytes on each device, by its submitter.
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
    """Arrivals in order of submission. `notes` say, for people, how they were made and what was left out; `left_out` is the share
    of all device time that was, because jobs want more devices than a host has."""

    name: str
    arrivals: tuple[JobArrival, ...]
    notes: tuple[str, ...] = ()
    left_out: float = 0.0
