"""A small world whose slowdowns are easy to compute with, and traces for it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gpuq.core.state.device import Device, DeviceId, HostId
from gpuq.core.state.job import JobId, JobState
from gpuq.policies.lists.packed import packed
from gpuq.sim.candidate import Candidate
from gpuq.sim.record import HostLoss, SimulationRun
from gpuq.sim.trace import JobArrival, Trace
from gpuq.sim.world import Workload, World

GIB = 2**30
PACKED = Candidate("packed", packed)
LIGHT = Workload("light", "resnet18", 8, 40.0, powers={"P100": 150.0})
HEAVY = Workload("heavy", "bert", 8, 95.0, powers={"P100": 250.0})
PAIRS = {("light", "light"): 1.1, ("light", "heavy"): 2.0, ("heavy", "light"): 2.0, ("heavy", "heavy"): 2.0}
NEVER_TOGETHER = {**PAIRS, ("light", "light"): math.inf}


def world(devices: int = 1, hosts: int = 1, *, light: Workload = LIGHT, heavy: Workload = HEAVY, **more: Any) -> World:
    """`light` and `light` slow each other by a tenth, `heavy` doubles everything. Each device has 16 GiB."""
    values: Mapping[str, Any] = {"pairs": PAIRS, "idle_powers": {"P100": 50.0}, **more}
    return World(
        "small",
        tuple(
            Device(DeviceId(f"h{h}/{d}"), HostId(f"h{h}"), "sim", "P100", 16 * GIB, "mps")
            for h in range(hosts)
            for d in range(devices)
        ),
        {"light": light, "heavy": heavy},
        {"light": "light", "heavy": "heavy"},
        **values,
    )


def arrival(number: int, kind: str, at: float = 0.0, duration_s: float = 100.0, **more: Any) -> JobArrival:
    return JobArrival(JobId(number), at, duration_s, more.pop("devices", 1), kind, more.pop("owner", "ada"), **more)


def trace(*arrivals: JobArrival) -> Trace:
    return Trace("small", arrivals)


def arrivals(*kinds: str, **more: Any) -> Trace:
    """Jobs of these kinds, all submitted at the start."""
    return trace(*(arrival(number, kind, **more) for number, kind in enumerate(kinds, 1)))


def host_loss(host: str, at: float, away_s: float) -> HostLoss:
    """A loss of `host` from `at` on for `away_s`, in seconds of virtual time."""
    return HostLoss(HostId(host), at, at + away_s)


def ends(run: SimulationRun) -> list[float]:
    """When each job ended; all of them did, with their work done."""
    assert all(job.state is JobState.COMPLETED for job in run.jobs), [job.state for job in run.jobs]
    return [round(job.ended_at or -1, 6) for job in run.jobs]
