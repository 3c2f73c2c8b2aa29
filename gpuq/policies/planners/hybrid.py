"""A planner over the batch every `plan_every_s`, dynamic packing in between.

A plan says in which wave each waiting job is to run and beside whom: the best assignment to all devices, were they idle, then the
best of the jobs that are left, and so on. Between plans jobs are tried wave by wave, beside the partner they were planned with
if it runs, else wherever packing puts them; who came since is packed after them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpuq.core.scheduling.admit import DeviceSnapshot
from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.policy import Eviction, Policy, Proposal
from gpuq.core.state.job import Job, JobId
from gpuq.policies.lists import placement
from gpuq.policies.planners.batch import NO_PARTNER
from gpuq.policies.planners.batch_builder import build_batch, foremost
from gpuq.policies.planners.linear import solve_linear
from gpuq.policies.planners.pairing import PairBook
from gpuq.policies.planners.plan import Solve, dynamic, require_scipy
from gpuq.policies.spec import PolicySpec
from gpuq.settings import Scheduling

# Later waves start long after the plan is out of date.
_MOST_WAVES = 4


class Hybrid:
    """The policy. Keeps the plan: the order of job ids, and planned partners. A plan gone wrong costs order, never safety."""

    def __init__(self, scheduling: Scheduling, solve: Solve = solve_linear) -> None:
        self._solve, self._most, self._every_s = solve, scheduling.plan_jobs, scheduling.plan_every_s
        self._rest = dynamic(scheduling)
        self._book = PairBook()
        self._planned_at = float("-inf")
        self._order: list[JobId] = []
        self._partner: dict[JobId, JobId] = {}

    def __call__(self, context: SchedulingContext) -> Iterator[Proposal | Eviction]:
        """Who was planned, wave by wave, then what packing would still place."""
        waiting = {job.id: job for job in context.waiting}
        if waiting and context.now - self._planned_at >= self._every_s:
            self._plan(context)
        for job in (waiting[id_] for id_ in self._order if id_ in waiting):
            yield from self._start(context, job)
        yield from self._rest(context)

    def _start(self, context: SchedulingContext, job: Job) -> Iterator[Proposal]:
        partner = context.state.jobs.get(self._partner.get(job.id, job.id))
        if partner is not None and context.placed(partner):
            return  # joins it in the next pass
        planned = self._beside(context, job)
        if planned is not None:
            yield Proposal(job, (planned.device,))
        if context.placed(job) or context.refused(job):
            return
        for snapshots in placement.packed(context, job):
            yield Proposal(job, tuple(snapshot.device for snapshot in snapshots))
            if context.placed(job):
                return

    def _beside(self, context: SchedulingContext, job: Job) -> DeviceSnapshot | None:
        """Where the planned partner runs with nobody else."""
        partner = self._partner.get(job.id)
        attempts = (
            snapshot
            for snapshot in context.snapshots
            if len(snapshot.residents) == 1 and not context.given(snapshot.device.id)
        )
        return next((snapshot for snapshot in attempts if snapshot.residents[0].id.job == partner), None)

    def _plan(self, context: SchedulingContext) -> None:
        self._planned_at = context.now
        self._order, self._partner = [], {}
        left = foremost(context.waiting, self._most)
        snapshots = [_emptied(snapshot) for snapshot in context.snapshots]
        for _ in range(_MOST_WAVES):
            batch = build_batch(context, left, snapshots, self._book)
            if not batch.size:
                break
            plan = self._solve(batch)
            chosen = sorted(plan.chosen, key=lambda option: -batch.density[option])
            pairs = [option for option in chosen if batch.second[option] != NO_PARTNER]
            self._order += [batch.jobs[batch.first[option]].id for option in chosen]
            self._order += [batch.jobs[batch.second[option]].id for option in pairs]
            self._partner |= {batch.jobs[batch.second[o]].id: batch.jobs[batch.first[o]].id for o in pairs}
            started = set(self._order)
            left = [job for job in left if job.id not in started]


def _emptied(snapshot: DeviceSnapshot) -> DeviceSnapshot:
    """The place as it will be once all have ended."""
    if snapshot.reading is None:
        return snapshot
    return replace(
        snapshot, residents=(), reading=replace(snapshot.reading, used_memory=snapshot.reading.foreign_memory)
    )


def _make(scheduling: Scheduling) -> Policy:
    require_scipy("hybrid")
    return Hybrid(scheduling)


SPEC = PolicySpec(
    "a planner over the batch every few minutes, dynamic packing in between", _make,
    work_conserving=True, starvation_free=False, extra="train",
)  # fmt: skip
