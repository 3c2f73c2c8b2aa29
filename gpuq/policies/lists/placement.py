"""Placements of a list scheduler: the devices to try for a job, best first.

Exclusive use is not a placement: the limit `residents_per_device = 1` gives it to every policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from gpuq.core.scheduling.admit import DeviceSnapshot, needed_memory
from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.policy import Proposal
from gpuq.core.state.job import Job

Choice = tuple[DeviceSnapshot, ...]
Placement = Callable[[SchedulingContext, Job], Iterable[Choice]]


def packed(context: SchedulingContext, job: Job) -> Iterable[Choice]:
    """Idle devices first, then the busy ones with the highest rate of work; last those that are too small.

    Idle first, because sharing slows down both the newcomer and the residents, and an idle device serves no job.
    """
    later = []
    for choice in context.choices(job):
        if any(snapshot.residents for snapshot in choice) or _is_too_small(context, job, choice):
            later.append(choice)
        else:
            yield choice
    yield from sorted(
        later, key=lambda choice: (_is_too_small(context, job, choice), -_work_rate(context, job, choice))
    )


def best_fit(context: SchedulingContext, job: Job) -> Iterable[Choice]:
    """The devices with the least capacity left over first, so that whole devices stay free for gangs; last those that are too
    small.

    Left over is the share of a device that would stay unused, of memory or of utilisation, whichever is smaller. A job without a
    forecast counts as needing the whole device.
    """

    def left_over(snapshot: DeviceSnapshot) -> float:
        forecast, total = context.forecast_alone(job, snapshot.device), snapshot.device.total_memory
        memory = (needed_memory(job, forecast) or total) + snapshot.committed_memory
        busy = (100.0 if forecast.peak_utilization_pct is None else forecast.peak_utilization_pct) / 100
        return 1 - max(memory / total, busy + snapshot.committed_utilization / 100)

    return sorted(
        context.choices(job), key=lambda choice: (_is_too_small(context, job, choice), sum(map(left_over, choice)))
    )


def try_each(context: SchedulingContext, job: Job, choices: Iterable[Choice]) -> Iterator[Proposal]:
    """Proposals of the job on one choice after the other, until one is granted."""
    for choice in choices:
        yield Proposal(job, tuple(snapshot.device for snapshot in choice))
        if context.placed(job):
            return


def _is_too_small(context: SchedulingContext, job: Job, choice: Choice) -> bool:
    return any(context.is_too_small(job, snapshot.device.id) for snapshot in choice)


def _work_rate(context: SchedulingContext, job: Job, choice: Choice) -> float:
    """Work that the newcomer does per second minus work that its partners lose, in seconds of work alone; 1 on idle devices.

    With slowdowns s of the newcomer and r of its partners on a device: 1/s minus, per partner, 1 - 1/r. A gang runs at the
    speed of its slowest device; the loss of its partners is averaged over its devices.
    """
    speeds, losses = [1.0], 0.0
    for snapshot in choice:
        if not snapshot.residents:
            continue
        forecast = context.forecast(job, snapshot)
        known = [(c.newcomer, c.resident) for c in forecast.pairs if c.newcomer is not None and c.resident is not None]
        if known and len(known) == len(snapshot.residents):
            newcomer, residents = (max(1.0, *slowdowns) for slowdowns in zip(*known, strict=True))
        else:
            # Without evidence about the pair the device is time-shared in proportion: 150% of load makes all 1.5 times slower.
            load = (forecast.peak_utilization_pct or 100.0) + snapshot.committed_utilization
            newcomer = residents = max(1.0, load / 100)
        speeds.append(1 / newcomer)
        losses += len(snapshot.residents) * (1 - 1 / residents)
    return min(speeds) - losses / len(choice)
