"""Runs made by hand, so that every figure can be computed on paper."""

from __future__ import annotations

from typing import Any

from gpuq.core.state.attempt import AttemptId, Ending
from gpuq.core.state.device import DeviceId
from gpuq.core.state.forecast import UNKNOWN
from gpuq.core.state.job import JobId, JobState
from gpuq.core.state.verdict import Rule
from gpuq.sim.record import SimulatedAttempt, SimulatedJob, SimulationRun, Stretch
from gpuq.sim.trace import JobArrival


def a_job(
    number: int,
    start: float,
    end: float,
    *,
    submit: float = 0.0,
    device: str = "gpu0",
    beside: tuple[str, ...] = (),
    slowdown: float = 1.0,
    owner: str = "ada",
    **arrival: Any,
) -> SimulatedJob:
    """A job that ran once, at one slowdown from start to end, and took (end - start) / slowdown of work."""
    work_s = (end - start) / slowdown
    came = JobArrival(
        JobId(number), submit, arrival.pop("duration_s", work_s), 1, arrival.pop("kind", "a"), owner, **arrival
    )
    attempt = SimulatedAttempt(
        AttemptId(JobId(number), 1), came, (DeviceId(device),), "T", start, UNKNOWN, Rule.IDLE,
        ended_at=end, ending=Ending.EXITED, stretches=[Stretch(beside, end - start, work_s, slowdown)],
    )  # fmt: skip
    return SimulatedJob(came, JobState.COMPLETED, start, end, [attempt])


def a_run(
    *jobs: SimulatedJob, policy: str = "packed", devices: int = 1, seed: int = 1, **changes: Any
) -> SimulationRun:
    """A run of these jobs."""
    end = max((job.ended_at or 0.0 for job in jobs), default=0.0)
    return SimulationRun("sample", "small", policy, seed, devices, jobs=list(jobs), ended_at=end, **changes)


def together(slowdown: float = 1.25, **changes: Any) -> SimulationRun:
    """Two jobs of 3600 s that ran side by side on one device from the start."""
    end = 3600 * slowdown
    return a_run(
        a_job(1, 0, end, beside=("a",), slowdown=slowdown),
        a_job(2, 0, end, beside=("a",), slowdown=slowdown, owner="bob"),
        **changes,
    )


def alone(**changes: Any) -> SimulationRun:
    """The same two, one after the other."""
    return a_run(a_job(1, 0, 3600), a_job(2, 3600, 7200, owner="bob"), **{"policy": "exclusive-fifo", **changes})
