"""What the plots need of a run, thinned: distributions at fixed quantiles, and the time of the first devices.

A run of 80,000 jobs is too much for a page and for sending it between processes; 201 points of a distribution look the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpuq.sim.record import SimulationRun
from gpuq.sim.report.occupancy import DeviceSpan, spans

POINTS = 201
_DEVICES = 12
_BARS = 3000


@dataclass(frozen=True, slots=True)
class TimelineBar:
    """An attempt on a device; partners lie in lanes side by side. Seconds from the start of the trace."""

    job: int
    kind: str
    start: float
    end: float
    lane: int
    shared: bool


@dataclass(frozen=True, slots=True)
class DeviceTimeline:
    """One device and the attempts that it had."""

    device: str
    lanes: int
    bars: tuple[TimelineBar, ...]


@dataclass(frozen=True, slots=True)
class PlotData:
    """Distributions at `POINTS` even quantiles from 0 to 1, and the timelines of the first devices."""

    policy: str
    seed: int
    completions: tuple[float, ...]
    waits: tuple[float, ...]
    slowdowns: tuple[float, ...]
    rows: tuple[DeviceTimeline, ...]
    until: float


def plot_data(run: SimulationRun) -> PlotData:
    """The plot data of one run."""
    by_device = spans(run.jobs, run.ended_at)
    shown = sorted(by_device)[:_DEVICES]
    return PlotData(
        policy=run.policy,
        seed=run.seed,
        completions=_points([job.completion_s for job in run.jobs if job.completion_s is not None]),
        waits=_points([job.wait_s for job in run.jobs if job.wait_s is not None]),
        slowdowns=_points([found for job in run.jobs if (found := job.slowdown) is not None]),
        rows=tuple(_row(device, by_device[device]) for device in shown),
        until=max((job.ended_at for job in run.jobs if job.ended_at is not None), default=run.ended_at),
    )


def _points(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(float(value) for value in np.quantile(values, np.linspace(0, 1, POINTS))) if values else ()


def _row(device: str, on_device: Sequence[DeviceSpan]) -> DeviceTimeline:
    """The device's timeline, with each attempt in the first lane that is free at its start."""
    free_at: list[float] = []
    bars = []
    for index, span in enumerate(on_device[:_BARS]):
        lane = next((lane for lane, at in enumerate(free_at) if at <= span.start), len(free_at))
        free_at[lane : lane + 1] = [span.end]
        near = on_device[max(0, index - 8) : index + 16]
        shared = any(other is not span and other.start < span.end and span.start < other.end for other in near)
        arrival = span.attempt.arrival
        bars.append(TimelineBar(arrival.job, arrival.kind, span.start, span.end, lane, shared))
    return DeviceTimeline(device, max(1, len(free_at)), tuple(bars))
