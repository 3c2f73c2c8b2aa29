"""Plans the whole queue every few minutes and starts jobs by that plan in between.

A plan orders the waiting jobs in waves and names partners: the first wave is the best assignment of jobs to all devices as if
they were idle, the second the best of the jobs that are left, and so on. Between two plans each job is tried beside the partner
that it was planned with, if that runs, else wherever the default placement puts it. Jobs that were submitted since come after
them.

So a pass costs little more than one of the default policy, while a plan may take longer.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.policy import Eviction, Policy, Proposal
from gpuq.core.state.job import Job, JobId
from gpuq.policies.lists import placement
from gpuq.policies.planners.batch import NO_PARTNER
from gpuq.policies.planners.batch_builder import build_batch, foremost
from gpuq.policies.planners.linear import solve_linear
from gpuq.policies.planners.pairing import PairBook
from gpuq.policies.planners.plan import Solve, packing, require_scipy
from gpuq.policies.spec import PolicySpec
from gpuq.settings import Scheduling

# Jobs of later waves would start long after the plan has been replaced.
_MOST_WAVES = 4


class Hybrid:
    """The policy. Keeps the planned order of jobs and their partners; an outdated plan costs order, not correctness."""

    def __init__(self, scheduling: Scheduling, solve: Solve = solve_linear) -> None:
        self._solve, self._most, self._every_s = solve, scheduling.plan_jobs, scheduling.plan_every_s
        self._rest = packing(scheduling)
        self._book = PairBook()
        self._planned_at = float("-inf")
        self._order: list[JobId] = []
        self._partner: dict[JobId, JobId] = {}

    def __call__(self, context: SchedulingContext) -> Iterator[Proposal | Eviction]:
        """The planned jobs wave by wave, then what packing would still start."""
        waiting = {job.id: job for job in context.waiting}
        if waiting and context.now - self._planned_at >= self._every_s:
            self._plan(context)
        for job in (waiting[id_] for id_ in self._order if id_ in waiting):
            yield from self._start(context, job)
        yield from self._rest(context)

    def _start(self, context: SchedulingContext, job: Job) -> Iterator[Proposal]:
        partner = self._partner.get(job.id)
        first = context.state.jobs.get(job.id if partner is None else partner)
        if first is not None and context.placed(first):
            return  # the partner starts in this pass, so this job can join it in the next
        alone_there = (
            snapshot.device
            for snapshot in context.snapshots
            if len(snapshot.residents) == 1
            and not context.given(snapshot.device.id)
            and snapshot.residents[0].id.job == partner
        )
        beside_partner = next(alone_there, None)
        if beside_partner is not None:
            yield Proposal(job, (beside_partner,))
        if not context.placed(job) and not context.refused(job):
            yield from placement.try_each(context, job, placement.packed(context, job))

    def _plan(self, context: SchedulingContext) -> None:
        self._planned_at = context.now
        self._order, self._partner = [], {}
        left = foremost(context.waiting, self._most)
        # All devices as if idle: most of what runs will have ended before the plan does.
        snapshots = [snapshot.emptied for snapshot in context.snapshots]
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
            planned = set(self._order)
            left = [job for job in left if job.id not in planned]


def _make(scheduling: Scheduling) -> Policy:
    require_scipy("hybrid")
    return Hybrid(scheduling)


SPEC = PolicySpec(
    "a planner over the batch every few minutes, dynamic packing in between", _make,
    work_conserving=True, starvation_free=False, extra="train",
)  # fmt: skip
