"""Time shares that are proportionally fair, pairs included: Gavel's way (Narayanan et al., OSDI 2020) with a convex objective.

How much of the time each option should run is a convex program: the sum of weight * log(speed) over the jobs is the largest
where nobody can gain a percentage of speed without others losing as many (F. Kelly, European Transactions on Telecommunications
8, 1997). The logarithm is replaced by tangents, so that linear programs solve it: a coarse one, and a fine one around what that
gives. As in Gavel, options are then taken by priority: share / share of its time that a job has had so far. Durations are not
looked at.

Of Gavel's rounds: with `preemption`, jobs that allow it may lose their devices every `plan_every_s` to those that had less.
Without, shares count only where devices come free, and of jobs that never ran, those that pair well and came first start first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from gpuq.core.scheduling.admit import DeviceSnapshot
from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.policy import Eviction, Policy, Proposal
from gpuq.core.state.attempt import Attempt, served_s
from gpuq.core.state.job import Job, JobState
from gpuq.policies.planners.batch import NO_PARTNER, Batch, Indices, Numbers
from gpuq.policies.planners.batch_builder import build_batch, foremost
from gpuq.policies.planners.pairing import PairBook
from gpuq.policies.planners.plan import Plan, complete, dynamic, require_scipy
from gpuq.policies.planners.relaxed import uses
from gpuq.policies.spec import PolicySpec
from gpuq.settings import Scheduling

_PARTNERS = 6
# Speeds where tangents touch: first as shares of each job's best, down to a thousandth; then as shares of those found first.
_COARSE = 2.0 ** -np.arange(11)
_FINE = np.geomspace(0.6, 1 / 0.6, 11)
# Steps of the logarithm of a priority: what lies closer is equal, and who came first goes first.
_STEPS = 5.0
# What a job that never ran is taken to have had: its priority is high, and still a matter of its share.
_LITTLE = 1e-3


class Convex:
    """The policy. Keeps the moment of the last round, and nothing about jobs."""

    def __init__(self, scheduling: Scheduling) -> None:
        self._most, self._round_s = scheduling.plan_jobs, scheduling.plan_every_s
        self._takes_turns = scheduling.preemption
        self._rest = dynamic(scheduling)
        self._book = PairBook()
        self._round_at = float("-inf")

    def __call__(self, context: SchedulingContext) -> Iterator[Proposal | Eviction]:
        """Evictions where a round ended, then who starts where, then what packing would still place."""
        if self._takes_turns and context.now - self._round_at >= self._round_s:
            self._round_at = context.now
            yield from self._turns(context)
        batch = build_batch(context, foremost(context.waiting, self._most), context.snapshots, self._book)
        if batch.size:
            yield from by_priority(batch, context).proposals()
        yield from self._rest(context)

    def _turns(self, context: SchedulingContext) -> Iterator[Eviction]:
        """Who has to make room: those that would not run if all that may be stopped waited again."""
        snapshots = [_cleared(snapshot, context) for snapshot in context.snapshots]
        movable = {a.id: a for snapshot in context.snapshots for a in snapshot.residents if _may_stop(a, context)}
        running = [context.state.jobs[attempt.job] for attempt in movable]
        waiting = foremost(context.waiting, self._most)
        if not running or not waiting:
            return
        foretold = {a.id.job: replace(a.forecast, pairs=()) for a in movable.values()}
        batch = build_batch(context, [*running, *waiting], snapshots, self._book, foretold)
        chosen = by_priority(batch, context).chosen
        wanted = {int(job) for job in (*batch.first[chosen], *batch.second[chosen])} - {NO_PARTNER}
        newcomers = [job for index, job in enumerate(batch.jobs) if index in wanted and index >= len(running)]
        for index, attempt in enumerate(movable.values()):
            if newcomers and index not in wanted:
                yield Eviction(attempt.id, newcomers[0])


def by_priority(batch: Batch, context: SchedulingContext) -> Plan:
    """Options by share / time had, the highest first, as long as they fit."""
    had = np.array([_had(job, context) for job in batch.jobs])
    both = np.where(batch.second == NO_PARTNER, had[batch.first], (had[batch.first] + had[batch.second]) / 2)
    priority = np.round(_STEPS * np.log(np.maximum(shares(batch), 1e-9) / (both + _LITTLE)))
    return Plan(batch, complete(batch, np.empty(0, dtype=np.intp), priority))


def shares(batch: Batch) -> Numbers:
    """The share of the time (m) that each option should run; zeros where the solver gives up."""
    from scipy.sparse import coo_array

    options, jobs = _pool(batch), len(batch.jobs)
    who = np.concatenate((batch.first[options], np.maximum(batch.second[options], 0)))
    both = _speeds(batch)[options].T.ravel()
    speed = coo_array((both, (who, np.tile(np.arange(len(options)), 2))), shape=(jobs, len(options))).tocsr()
    capacity, whole = uses(batch)[:, options], np.zeros(batch.size)
    found = _solve(batch, capacity, speed, np.tile(_COARSE, (jobs, 1)))
    if found is not None:
        slowest = float(_COARSE[-1])
        finer = _solve(batch, capacity, speed, np.maximum(speed @ found, slowest)[:, None] * _FINE)
        whole[options] = found if finer is None else finer
    return whole


def _solve(batch: Batch, capacity: Any, speed: Any, touched: Numbers) -> Numbers | None:
    """Shares of p options with the largest sum of utilities, where tangents touch at these speeds (n, k).

    `capacity` (n + s, p) is what each option takes of it, `speed` (n, p) what each job gets of each option.
    """
    from scipy.optimize import linprog
    from scipy.sparse import block_array, csr_array, diags_array

    (jobs, tangents), p = touched.shape, speed.shape[1]
    # One row per job and tangent: utility - speed / touched <= log(touched) - 1.
    repeated = csr_array(np.repeat(np.eye(jobs), tangents, axis=0))
    slopes = diags_array(1 / touched.ravel()) @ repeated @ speed
    found = linprog(
        np.concatenate((np.zeros(p), -batch.weight / batch.weight.max())),
        A_ub=block_array([[capacity, None], [-slopes, repeated]], format="csc"),
        b_ub=np.concatenate((batch.capacity, np.log(touched.ravel()) - 1)),
        bounds=[(0, None)] * p + [(None, None)] * jobs,
        method="highs",
    )
    return None if found.x is None else np.asarray(found.x[:p], dtype=np.float64)


def _speeds(batch: Batch) -> Numbers:
    """How fast each option's jobs (m, 2) are, against the best option that each has."""
    best = np.full(len(batch.jobs), 1e-12)
    np.maximum.at(best, batch.first, batch.worth[:, 0])
    joins = batch.second != NO_PARTNER
    np.maximum.at(best, batch.second[joins], batch.worth[joins, 1])
    speeds: Numbers = batch.worth / np.column_stack((best[batch.first], best[np.maximum(batch.second, 0)]))
    return speeds


def _pool(batch: Batch) -> Indices:
    """All options of one job, and of each job the few partners with whom most work gets done."""
    speed = _speeds(batch).sum(axis=1)
    alone = np.flatnonzero(batch.second == NO_PARTNER)
    pairs = np.flatnonzero(batch.second != NO_PARTNER)
    pairs = pairs[np.argsort(-speed[pairs], kind="stable")]
    seen = np.zeros(len(batch.jobs), dtype=np.intp)
    kept = []
    for option in pairs:
        who = batch.first[option], batch.second[option]
        if min(seen[who[0]], seen[who[1]]) < _PARTNERS:
            seen[list(who)] += 1
            kept.append(option)
    return np.sort(np.concatenate((alone, np.array(kept, dtype=np.intp))))


def _had(job: Job, context: SchedulingContext) -> float:
    """The share of its time since submission that the job has run so far."""
    running = sum(served_s(a, context.now) for a in context.state.attempts.values() if a.id.job == job.id)
    return (job.served_s + running) / job.device_count / max(1.0, context.now - job.submitted_at)


def _may_stop(attempt: Attempt, context: SchedulingContext) -> bool:
    """Whether it could be stopped, and so could all who share its devices: it would not just lose its place."""
    beside = {a for device in attempt.devices for a in context.snapshot(device).residents}
    jobs = [context.state.jobs[a.id.job] for a in beside]
    return all(job.preemptible and job.state is JobState.RUNNING for job in jobs)


def _cleared(snapshot: DeviceSnapshot, context: SchedulingContext) -> DeviceSnapshot:
    """The place without those that could be stopped."""
    if snapshot.reading is None or not all(_may_stop(attempt, context) for attempt in snapshot.residents):
        return snapshot
    return replace(
        snapshot, residents=(), reading=replace(snapshot.reading, used_memory=snapshot.reading.foreign_memory)
    )


def _make(scheduling: Scheduling) -> Policy:
    require_scipy("convex")
    return Convex(scheduling)


SPEC = PolicySpec(
    "proportionally fair time shares, pairs included, as Gavel realises them; can stop preemptible jobs", _make,
    work_conserving=True, starvation_free=False, extra="train",
)  # fmt: skip
