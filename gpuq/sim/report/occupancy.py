"""Which attempts had which device when; how long devices were busy, and how contended a time was."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from gpuq.core.state.device import DeviceId
from gpuq.sim.record import SimulatedAttempt, SimulatedJob


@dataclass(frozen=True, slots=True)
class DeviceSpan:
    """An attempt's time on one device, in virtual seconds."""

    start: float
    end: float
    attempt: SimulatedAttempt


def spans(jobs: Iterable[SimulatedJob], until: float) -> dict[DeviceId, list[DeviceSpan]]:
    """Each device's attempts in order of start; one that never ended lasts `until` the end of the simulation."""
    found: dict[DeviceId, list[DeviceSpan]] = defaultdict(list)
    for job in jobs:
        for attempt in job.attempts:
            end = until if attempt.ended_at is None else attempt.ended_at
            for device in attempt.devices:
                found[device].append(DeviceSpan(attempt.started_at, end, attempt))
    for on_device in found.values():
        on_device.sort(key=lambda span: (span.start, span.end))
    return dict(found)


def busy_s(by_device: Iterable[Sequence[DeviceSpan]]) -> float:
    """Device-seconds in which these devices had at least one attempt."""
    busy = 0.0
    for on_device in by_device:
        for start, end, count in _steps((span.start, span.end, 1) for span in on_device):
            busy += (end - start) * (count > 0)
    return busy


class DeviceDemand:
    """How many devices the jobs in the system, waiting or running, asked for together."""

    def __init__(self, jobs: Iterable[SimulatedJob], until: float) -> None:
        steps = _steps(
            (job.arrival.submit_s, until if job.ended_at is None else job.ended_at, job.arrival.devices) for job in jobs
        )
        self._starts = [start for start, _, _ in steps]
        self._heights = [height for _, _, height in steps]
        # Device-seconds asked for up to each start: means over any time are then differences.
        self._sums = list(accumulate(((end - start) * height for start, end, height in steps), initial=0.0))

    def mean(self, start: float, end: float) -> float:
        """The mean number of devices asked for over that time; it must not be empty."""
        return (self._until(end) - self._until(start)) / (end - start)

    def _until(self, moment: float) -> float:
        index = bisect_right(self._starts, moment) - 1
        return self._sums[index] + (moment - self._starts[index]) * self._heights[index] if index >= 0 else 0.0


def _steps(intervals: Iterable[tuple[float, float, int]]) -> list[tuple[float, float, int]]:
    """(start, end, sum of the weights of the intervals that cover it), one after the other, none of them empty."""
    change: dict[float, int] = defaultdict(int)
    for start, end, weight in intervals:
        change[start] += weight
        change[end] -= weight
    moments = sorted(change)
    heights = accumulate(change[moment] for moment in moments)
    return [(start, end, height) for (start, end), height in zip(pairwise(moments), heights, strict=False)]
