"""Proportionally fair time shares, pairs included: the approach of Gavel (Narayanan et al., OSDI 2020) with a convex objective.

    maximise    sum of weight[j] * log(speed[j])      over jobs j
    where       speed[j] = sum of x[o] * relative speed of j in o      over the options o that run j
    subject to  sum of use[r, o] * x[o] <= capacity[r]      for every resource r,  x[o] >= 0

x[o] is the share of the time that option o should run; speeds are relative to the best option of a job. At the optimum no job can
gain a percentage of speed without others losing as many percent in total (F. Kelly, European Transactions on Telecommunications
8, 1997). The logarithm is concave, so it is replaced by the lowest of its tangents at some speeds, which gives a linear program:
first with coarse tangents, then with fine ones around the speeds of that solution.

As in Gavel, options are then chosen by priority: share / share of its time that a job has run so far, the highest first.
Durations are not used.

With `preemption`, rounds as in Gavel: every `plan_every_s` preemptible jobs may lose their devices to jobs that had less. Without
it, shares decide only about devices that become free.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.policy import Eviction, Policy, Proposal
from gpuq.core.state.attempt import Attempt, served_s
from gpuq.core.state.job import JobState
from gpuq.policies.planners.batch import NO_PARTNER, Batch, Indices, Numbers
from gpuq.policies.planners.batch_builder import build_batch, foremost
from gpuq.policies.planners.pairing import PairBook
from gpuq.policies.planners.plan import Plan, complete, packing, require_scipy
from gpuq.policies.planners.relaxed import uses
from gpuq.policies.spec import PolicySpec
from gpuq.settings import Scheduling

# Partners considered for each job. The program has a variable for each option, so pairs are limited.
_PARTNERS = 6
# Speeds at which tangents touch the logarithm: coarse ones relative to a job's best speed, down to a thousandth; fine ones
# relative to the speed of the coarse solution.
_COARSE = 2.0 ** -np.arange(11)
_FINE = np.geomspace(0.6, 1 / 0.6, 11)
# The logarithm of a priority is rounded to a fifth. Priorities within that are equal and the job that came first wins; otherwise
# numerical noise would decide.
_STEPS = 5.0
# The share of its time that a job which never ran is taken to have run: its priority is high but still depends on its share.
_NEVER_RAN = 1e-3


class Convex:
    """The policy. Keeps the time of the last round and what is known of pairs."""

    def __init__(self, scheduling: Scheduling) -> None:
        self._most, self._round_s = scheduling.plan_jobs, scheduling.plan_every_s
        self._preempts = scheduling.preemption
        self._rest = packing(scheduling)
        self._book = PairBook()
        self._round_at = float("-inf")

    def __call__(self, context: SchedulingContext) -> Iterator[Proposal | Eviction]:
        """Evictions at the end of a round, then the starts by priority, then what packing would still start."""
        if self._preempts and context.now - self._round_at >= self._round_s:
            self._round_at = context.now
            yield from self._evictions(context)
        batch = build_batch(context, foremost(context.waiting, self._most), context.snapshots, self._book)
        if batch.size:
            yield from by_priority(batch, context).proposals()
        yield from self._rest(context)

    def _evictions(self, context: SchedulingContext) -> Iterator[Eviction]:
        """Stops the running jobs that would not be chosen if all that may be stopped were waiting again."""
        snapshots = [
            snapshot.emptied if all(_may_stop(a, context) for a in snapshot.residents) else snapshot
            for snapshot in context.snapshots
        ]
        movable = {a.id: a for snapshot in context.snapshots for a in snapshot.residents if _may_stop(a, context)}
        running = [context.state.jobs[attempt.job] for attempt in movable]
        waiting = foremost(context.waiting, self._most)
        if not running or not waiting:
            return
        forecasts = {a.id.job: replace(a.forecast, pairs=()) for a in movable.values()}
        batch = build_batch(context, [*running, *waiting], snapshots, self._book, forecasts)
        chosen = by_priority(batch, context).chosen
        wanted = {int(job) for job in (*batch.first[chosen], *batch.second[chosen])} - {NO_PARTNER}
        newcomers = [job for index, job in enumerate(batch.jobs) if index in wanted and index >= len(running)]
        for index, attempt in enumerate(movable.values()):
            if newcomers and index not in wanted:
                yield Eviction(attempt.id, newcomers[0])


def by_priority(batch: Batch, context: SchedulingContext) -> Plan:
    """The plan of the options with the highest priority that fit: share of the time that an option should run, divided by the
    share that its jobs have run since their submission (the mean of a pair's)."""
    ran = []
    for job in batch.jobs:
        running_s = sum(served_s(a, context.now) for a in context.state.attempts.values() if a.id.job == job.id)
        ran.append((job.served_s + running_s) / job.device_count / max(1.0, context.now - job.submitted_at))
    had = np.array(ran)
    both = np.where(batch.second == NO_PARTNER, had[batch.first], (had[batch.first] + had[batch.second]) / 2)
    priority = np.round(_STEPS * np.log(np.maximum(shares(batch), 1e-9) / (both + _NEVER_RAN)))
    return Plan(batch, complete(batch, np.empty(0, dtype=np.intp), priority))


def shares(batch: Batch) -> Numbers:
    """The share of the time x (m) that each option should run; zeros where the solver fails."""
    from scipy.sparse import coo_array

    options, jobs = _pool(batch), len(batch.jobs)
    runs = np.concatenate((batch.first[options], np.maximum(batch.second[options], 0)))
    speeds = _speeds(batch)[options].T.ravel()
    speed = coo_array((speeds, (runs, np.tile(np.arange(len(options)), 2))), shape=(jobs, len(options))).tocsr()
    use, whole = uses(batch)[:, options], np.zeros(batch.size)
    coarse = _solve(batch, use, speed, np.tile(_COARSE, (jobs, 1)))
    if coarse is not None:
        slowest = float(_COARSE[-1])
        fine = _solve(batch, use, speed, np.maximum(speed @ coarse, slowest)[:, None] * _FINE)
        whole[options] = coarse if fine is None else fine
    return whole


def _solve(batch: Batch, use: Any, speed: Any, touched: Numbers) -> Numbers | None:
    """The shares of p options with the largest weighted sum of utilities; None where the solver fails.

    `use` (n + s, p): resources that each option uses. `speed` (n, p): relative speed of each job in each option. `touched` (n,
    k): the speeds at which tangents touch the logarithm of a job's speed.
    """
    from scipy.optimize import linprog
    from scipy.sparse import block_array, csr_array, diags_array

    (jobs, tangents), p = touched.shape, speed.shape[1]
    # Variables: the p shares, then a utility per job. The tangent at speed t is log(t) + (speed - t) / t, so there is one row
    # per job and tangent: utility - speed / t <= log(t) - 1.
    repeated = csr_array(np.repeat(np.eye(jobs), tangents, axis=0))
    slopes = diags_array(1 / touched.ravel()) @ repeated @ speed
    solution = linprog(
        np.concatenate((np.zeros(p), -batch.weight / batch.weight.max())),
        A_ub=block_array([[use, None], [-slopes, repeated]], format="csc"),
        b_ub=np.concatenate((batch.capacity, np.log(touched.ravel()) - 1)),
        bounds=[(0, None)] * p + [(None, None)] * jobs,
        method="highs",
    )
    return None if solution.x is None else np.asarray(solution.x[:p], dtype=np.float64)


def _speeds(batch: Batch) -> Numbers:
    """Speed of the first and the second job of each option (m, 2), relative to the best option of that job."""
    best = np.full(len(batch.jobs), 1e-12)
    np.maximum.at(best, batch.first, batch.worth[:, 0])
    joins = batch.second != NO_PARTNER
    np.maximum.at(best, batch.second[joins], batch.worth[joins, 1])
    speeds: Numbers = batch.worth / np.column_stack((best[batch.first], best[np.maximum(batch.second, 0)]))
    return speeds


def _pool(batch: Batch) -> Indices:
    """All options of one job, and of each job the pairs with the highest total speed."""
    speed = _speeds(batch).sum(axis=1)
    alone = np.flatnonzero(batch.second == NO_PARTNER)
    pairs = np.flatnonzero(batch.second != NO_PARTNER)
    pairs = pairs[np.argsort(-speed[pairs], kind="stable")]
    seen = np.zeros(len(batch.jobs), dtype=np.intp)
    kept = []
    for option in pairs:
        both = [batch.first[option], batch.second[option]]
        if seen[both].min() < _PARTNERS:
            seen[both] += 1
            kept.append(option)
    return np.sort(np.concatenate((alone, np.array(kept, dtype=np.intp))))


def _may_stop(attempt: Attempt, context: SchedulingContext) -> bool:
    """Whether all residents of its devices may be stopped, and none is of a job on other hosts too, which the batch cannot place.
    Otherwise the devices would not become free."""
    beside = {a for device in attempt.devices for a in context.snapshot(device).residents}
    jobs = [context.state.jobs[a.id.job] for a in beside]
    return all(job.preemptible and job.state is JobState.RUNNING and job.host_count == 1 for job in jobs)


def _make(scheduling: Scheduling) -> Policy:
    require_scipy("convex")
    return Convex(scheduling)


SPEC = PolicySpec(
    "proportionally fair time shares, pairs included, as Gavel realises them; can stop preemptible jobs", _make,
    work_conserving=True, starvation_free=False, extra="train",
)  # fmt: skip
