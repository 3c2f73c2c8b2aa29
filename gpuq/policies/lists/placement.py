"""Where a job goes: the third part of a policy out of parts. Arrives: the board and a job. Leaves: places, best first.

Exclusive use is no placement: `residents_per_device = 1` in the limits says it for every policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gpuq.core.scheduling.admit import Place, needed_memory
from gpuq.core.scheduling.context import Board
from gpuq.core.state.job import Job

Choice = tuple[Place, ...]
Placement = Callable[[Board, Job], Iterable[Choice]]


def spread(board: Board, job: Job) -> Iterable[Choice]:
    """Idle devices first, then the least loaded."""
    return board.choices(job)


def packed(board: Board, job: Job) -> Iterable[Choice]:
    """Idle devices first, then where most work gets done: sharing costs something, waiting beside an idle GPU too."""
    shared = []
    for choice in board.choices(job):
        if any(place.residents for place in choice):
            shared.append(choice)
        else:
            yield choice
    yield from sorted(shared, key=lambda choice: -_work_rate(board, job, choice))


def best_fit(board: Board, job: Job) -> Iterable[Choice]:
    """Where the least is left over: shared before idle, the fullest device first, so that whole ones stay free for gangs."""
    return sorted(board.choices(job), key=lambda choice: sum(_left_over(board, job, place) for place in choice))


def _work_rate(board: Board, job: Job, choice: Choice) -> float:
    """What the newcomer does in a second, less what its partners no longer do, in seconds of work alone: 1 on idle devices.

    By what is foretold of the pair; where nothing is, as if a device loaded beyond 100% made all as slow as it is overdrawn.
    A gang is as slow as on its slowest device.
    """
    gains, losses = [1.0], 0.0
    for place in choice:
        if place.residents:
            newcomer, residents = _slowdowns(board, job, place)
            gains.append(1 / newcomer)
            losses += len(place.residents) * (1 - 1 / residents)
    return min(gains) - losses / len(choice)


def _slowdowns(board: Board, job: Job, place: Place) -> tuple[float, float]:
    """(of the newcomer, of those who are there), expected."""
    forecast = board.forecast(job, place)
    known = [c for c in forecast.pairs if c.newcomer is not None and c.resident is not None]
    if known and len(known) == len(place.residents):
        worst = max(known, key=lambda cost: cost.newcomer or 1.0)
        return max(1.0, worst.newcomer or 1.0), max(1.0, *(cost.resident or 1.0 for cost in known))
    load = max(1.0, ((forecast.peak_utilization_pct or 100.0) + place.committed_utilization) / 100)
    return load, load


def _left_over(board: Board, job: Job, place: Place) -> float:
    """The share of the device that nobody would have, of memory and of time, whichever is scarcer."""
    forecast = board.forecast_alone(job, place.device)
    memory = (needed_memory(job, forecast) or place.device.total_memory) + place.committed_memory
    busy = (100.0 if forecast.peak_utilization_pct is None else forecast.peak_utilization_pct) / 100
    return 1 - max(memory / place.device.total_memory, busy + place.committed_utilization / 100)
