"""The result of a simulation in sentences, the most important first. Each appears only where it is true."""

from __future__ import annotations

from collections.abc import Iterator

from gpuq.format import count, hours, share, two_places
from gpuq.sim.report.figures import RunFigures

# From this share of device time on, what was left out is said first.
_MUCH = 0.05


def headline(main: RunFigures, baseline: RunFigures, budget: float) -> list[str]:
    """The sentences about `main` compared with `baseline`; `budget` is the slowdown that counts as too much."""
    return [
        *_left_out(main),
        *_saved(main),
        *_completion(main, baseline),
        *_slowed(main, budget),
        *_ended(main, baseline),
    ]


def _left_out(main: RunFigures) -> Iterator[str]:
    if main.left_out is not None and main.left_out >= _MUCH:
        yield (
            f"{share(main.left_out)} of the trace's device time is left out, by jobs that want more devices than a host has: "
            "figures are of the rest."
        )


def _saved(main: RunFigures) -> Iterator[str]:
    if not main.sharing_jobs:
        yield f"Under {main.policy} no two jobs would have shared a device."
    elif main.gpu_hours_saved is not None and main.gpu_hours_used is not None:
        if main.gpu_hours_saved <= 0:
            yield "Sharing would have saved no GPU-hours."
            return
        whole = main.gpu_hours_used + main.gpu_hours_saved
        saved = f"{hours(main.gpu_hours_saved)} GPU-hours, {share(main.gpu_hours_saved / whole)} of {hours(whole)}"
        # The bound shows whether little was saved because little could be.
        bound = main.possible_saving
        most = "" if bound is None else f"; pairs within the limits of the settings could save {share(bound)} at most"
        yield f"Sharing would have saved {saved}{most}."


def _completion(main: RunFigures, baseline: RunFigures) -> Iterator[str]:
    ours, theirs = main.completion_mean_s, baseline.completion_mean_s
    if ours is None or theirs is None or main.policy == baseline.policy:
        return
    instead = f"{two_places(ours)} under {main.policy} instead of {two_places(theirs)} under {baseline.policy}"
    if two_places(ours) == two_places(theirs):
        yield f"On average, a job would have taken {two_places(ours)} from submission to end under both."
    elif ours < theirs:
        yield f"On average, a job would have taken {instead}, from submission to end."
    else:
        yield f"On average, a job would have taken longer: {instead}, from submission to end."


def _slowed(main: RunFigures, budget: float) -> Iterator[str]:
    worst, over = main.slowdown_worst, main.over_budget
    if not main.sharing_jobs or worst is None or over is None:
        return
    if worst < 1.0005:
        yield "No job would have been slowed."
    elif over == 0:
        yield f"No job would have been slowed by more than {share(worst - 1)}."
    else:
        yield (
            f"{share(over)} of the jobs would have been slowed by more than {share(budget - 1)}, the worst {worst:.2f} times."
        )


def _ended(main: RunFigures, baseline: RunFigures) -> Iterator[str]:
    for one in (main, baseline):
        if one.unfinished:
            yield f"Under {one.policy}, {count(one.unfinished)} of {count(one.jobs)} jobs never ended: figures are of the others."
    if main.ooms:
        yield f"{count(main.ooms)} attempts would have run out of memory."
