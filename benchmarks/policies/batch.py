"""Planners on one batch: 200 waiting jobs, 32 GPUs, half of them with a resident; all on the batch's own objective.

Philly jobs in worlds of measured pairs, with exact forecasts, so that only the planners differ. `METHODS` is
where another method joins. Baselines: best fit (the longest waiting first, onto the fullest device that takes it) and greedy
(most worth per device first), from which the planners start.

What is best for one batch need not be best for the queue: each policy also plays one scenario from start to end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np

from benchmarks.table import Row
from gpuq.lab.planners.annealing import solve_annealing
from gpuq.lab.planners.genetic import solve_genetic
from gpuq.lab.planners.network import SHIPPED, PolicyNetwork, load
from gpuq.lab.planners.reinforcement import played, solve_reinforcement
from gpuq.lab.sim.queued import LIMITS, queue
from gpuq.lab.traces.named import philly_scenario
from gpuq.policies import registry
from gpuq.policies.planners.batch import NO_PARTNER, Batch
from gpuq.policies.planners.batch_builder import build_batch, foremost
from gpuq.policies.planners.integer import solve_integer
from gpuq.policies.planners.linear import solve_linear
from gpuq.policies.planners.plan import Plan, greedy, require_scipy
from gpuq.settings import Scheduling
from gpuq.sim.candidate import Candidate
from gpuq.sim.forecaster import Oracle
from gpuq.sim.run import simulate

SEEDS = (1, 2, 3, 4, 5)
WORLDS = ("mps", "gavel-p100")
JOBS, GPUS = 200, 32
PLAYED_JOBS = 300
LOAD = 0.9
INTEGER_LIMIT_S = 1.0


def best_fit(batch: Batch) -> Plan:
    """The longest waiting first, each onto the fullest device that takes it: beside a resident or an earlier newcomer if it
    may, else an idle one."""
    seat_of = batch.rows[:, 2]
    pairs = {
        (frozenset((int(a), int(b))), int(seat_of[option])): option
        for option, (a, b) in enumerate(zip(batch.first, batch.second, strict=True))
        if b != NO_PARTNER
    }
    alone: dict[int, list[int]] = {}
    for option in np.flatnonzero(batch.second == NO_PARTNER):
        alone.setdefault(int(batch.first[option]), []).append(int(option))
    left, chosen = batch.capacity.copy(), set[int]()
    lone: dict[int, int] = {}  # who has an idle device to itself: the option by the job
    for job in range(len(batch.jobs)):
        options = [o for o in alone.get(job, []) if (left[batch.rows[o]] >= batch.counts[o]).all()]
        option = max(options, key=lambda o: _fullness(batch, o), default=None)
        joins = ((p, pairs.get((frozenset((p, job)), int(seat_of[o])))) for p, o in lone.items())
        partner, both = next(((p, o) for p, o in joins if o is not None), (None, None))
        if option is not None and (partner is None or _fullness(batch, option) > 0):
            chosen.add(option)
            np.subtract.at(left, batch.rows[option], batch.counts[option])
            if batch.devices[option] == 1 and _fullness(batch, option) == 0:
                lone[job] = option
        elif partner is not None and both is not None:
            chosen.symmetric_difference_update({lone.pop(partner), both})
            left[job] -= 1
    return Plan(batch, np.array(sorted(chosen), dtype=np.intp))


@cache
def _shipped() -> PolicyNetwork:
    return load(SHIPPED)


METHODS: dict[str, Callable[[Batch], Plan]] = {
    "best fit": best_fit,
    "greedy": greedy,
    "linear": solve_linear,
    "genetic": solve_genetic,
    "annealing": solve_annealing,
    "reinforcement": lambda batch: solve_reinforcement(batch, _shipped()),
    "reinforcement, the network's own plan": lambda batch: played(batch, _shipped()),
    "integer": lambda batch: solve_integer(batch, INTEGER_LIMIT_S),
}
BASELINES = ("best fit", "greedy")
PLAYED = (
    "packed",
    "best-fit",
    "fifo",
    "linear",
    "genetic",
    "annealing",
    "integer",
    "convex",
    "hybrid",
    "reinforcement",
)


def run(data: Path) -> list[Row]:
    """Both parts."""
    rows: list[Row] = []
    for world in WORLDS:
        rows += _batches(data, world)
    return [*rows, *_played(data)]


# --- one batch ----------------------------------------------------------------------------------------------------


def _batches(data: Path, world: str) -> Iterator[Row]:
    require_scipy("integer")
    _shipped()
    queues = [
        queue(philly_scenario(data, pairs=world, gpus=GPUS, jobs=JOBS + GPUS, seed=seed), seed, JOBS) for seed in SEEDS
    ]
    drafts = [_timed(lambda q=q: build_batch(q[0], foremost(q[0].waiting, JOBS), q[0].snapshots, q[1])) for q in queues]
    batches = [batch for batch, _ in drafts]
    found = {name: [_checked(method, batch) for batch in batches] for name, method in METHODS.items()}
    best_fits = [plan.value for plan, _ in found["best fit"]]
    bounds = [plan.bound or np.inf for plan, _ in found["integer"]]
    options, drawn = median(batch.size for batch in batches), median(seconds for _, seconds in drafts)
    yield Row(
        f"{world}: drawing up the batch", 1000 * drawn, "ms",
        note=f"CPU time, median; {JOBS} jobs, {GPUS} GPUs, {options:.0f} options (median), seeds {SEEDS}",
    )  # fmt: skip
    for name, plans in found.items():
        against = [plan.value / base for (plan, _), base in zip(plans, best_fits, strict=True)]
        gaps = [1 - plan.value / bound for (plan, _), bound in zip(plans, bounds, strict=True)]
        took = median(seconds for _, seconds in plans)
        reach = None if name in BASELINES else 1.0
        yield Row(
            f"{world}: {name}, worth against best fit, worst of {len(SEEDS)} seeds", min(against), "x", reach, ">=",
            f"median {median(against):.3g}x; below the integer program's bound by {100 * median(gaps):.2f}% "
            f"(worst {100 * max(gaps):.2f}%); decided in {1000 * took:.0f} ms CPU (median)",
        )  # fmt: skip


def _timed(make: Callable[[], Any]) -> tuple[Any, float]:
    began = time.process_time()
    made = make()
    return made, time.process_time() - began


def _checked(method: Callable[[Batch], Plan], batch: Batch) -> tuple[Plan, float]:
    plan, took = _timed(lambda: method(batch))
    if not batch.allows(plan.chosen):
        raise AssertionError("a plan takes more room than there is")
    return plan, took


def _fullness(batch: Batch, option: int) -> float:
    """Percent committed on the busiest device that the option takes."""
    n = len(batch.jobs)
    slots = [row - n for row, count in zip(batch.rows[option], batch.counts[option], strict=True) if count and row >= n]
    return max(float(batch.slot_features[slot, 2]) for slot in slots)


# --- the whole queue ----------------------------------------------------------------------------------------------


def _played(data: Path) -> Iterator[Row]:
    scenario = philly_scenario(data, pairs="mps", gpus=GPUS, jobs=PLAYED_JOBS, load=LOAD, seed=SEEDS[0])
    base: float | None = None
    for name in (name for name in PLAYED if name in registry.names()):
        policy = registry.make(Scheduling(policy=name))
        began = time.perf_counter()
        run = simulate(scenario.trace, scenario.world, Oracle(scenario.world), Candidate(name, policy, LIMITS))
        seconds = time.perf_counter() - began
        mean = fmean(job.completion_s for job in run.jobs if job.completion_s is not None)
        base = base or mean
        unended = sum(job.completion_s is None for job in run.jobs)
        yield Row(
            f"{PLAYED_JOBS} jobs to the end, {GPUS} GPUs, {LOAD:.0%} load, mps: {name}, mean completion", mean / 3600, "h",
            note=f"{mean / base:.3f} of packed's; slowest pass {1000 * max(run.pass_seconds):.0f} ms, all {seconds:.0f} s"
            + (f"; {unended} never ended" if unended else ""),
        )  # fmt: skip
