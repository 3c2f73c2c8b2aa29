"""Where a job goes: the third part of a policy out of parts. Arrives: the board and a job. Leaves: places, best first.

Exclusive use is no placement: `residents_per_device = 1` in the limits says it for every policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gpuq.core.scheduling.admit import DeviceSnapshot, needed_memory
from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.state.job import Job

Choice = tuple[DeviceSnapshot, ...]
Placement = Callable[[SchedulingContext, Job], Iterable[Choice]]


def spread(context: SchedulingContext, job: Job) -> Iterable[Choice]:
    """Idle devices first, then the least loaded."""
    return context.choices(job)


def packed(context: SchedulingContext, job: Job) -> Iterable[Choice]:
    """Idle devices first, then where most work gets done: sharing costs something, waiting beside an idle GPU too."""
    shared = []
    for choice in context.choices(job):
        if any(snapshot.residents for snapshot in choice):
            shared.append(choice)
        else:
            yield choice
    yield from sorted(shared, key=lambda choice: -_work_rate(context, job, choice))


def best_fit(context: SchedulingContext, job: Job) -> Iterable[Choice]:
    """Where the least is left over: shared before idle, the fullest device first, so that whole ones stay free for gangs."""
    return sorted(
        context.choices(job), key=lambda choice: sum(_left_over(context, job, snapshot) for snapshot in choice)
    )


def _work_rate(context: SchedulingContext, job: Job, choice: Choice) -> float:
    """What the newcomer does in a second, less what its partners no longer do, in seconds of work alone: 1 on idle devices.

    By what is foretold of the pair; where nothing is, as if a device loaded beyond 100% made all as slow as it is overdrawn.
    A gang is as slow as on its slowest device.
    """
    gains, losses = [1.0], 0.0
    for snapshot in choice:
        if snapshot.residents:
            newcomer, residents = _slowdowns(context, job, snapshot)
            gains.append(1 / newcomer)
            losses += len(snapshot.residents) * (1 - 1 / residents)
    return min(gains) - losses / len(choice)


def _slowdowns(context: SchedulingContext, job: Job, snapshot: DeviceSnapshot) -> tuple[float, float]:
    """(of the newcomer, of those who are there), expected."""
    forecast = context.forecast(job, snapshot)
    known = [c for c in forecast.pairs if c.newcomer is not None and c.resident is not None]
    if known and len(known) == len(snapshot.residents):
        worst = max(known, key=lambda cost: cost.newcomer or 1.0)
        return max(1.0, worst.newcomer or 1.0), max(1.0, *(cost.resident or 1.0 for cost in known))
    load = max(1.0, ((forecast.peak_utilization_pct or 100.0) + snapshot.committed_utilization) / 100)
    return load, load


def _left_over(context: SchedulingContext, job: Job, snapshot: DeviceSnapshot) -> float:
    """The share of the device that nobody would have, of memory and of time, whichever is scarcer."""
    forecast = context.forecast_alone(job, snapshot.device)
    memory = (needed_memory(job, forecast) or snapshot.device.total_memory) + snapshot.committed_memory
    busy = (100.0 if forecast.peak_utilization_pct is None else forecast.peak_utilization_pct) / 100
    return 1 - max(memory / snapshot.device.total_memory, busy + snapshot.committed_utilization / 100)
