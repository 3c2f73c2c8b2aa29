"""List scheduling (Graham 1966): try the waiting jobs in an order and start each on the first devices that admit it.

A list scheduler has four exchangeable parts: a queue order, a backfill rule, a placement and a preemption rule. A job that no
device admits may be started as a trial where only missing evidence prevents sharing, or run while the residents of a device are
paused, where the limits allow that.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heapreplace

from gpuq.core.scheduling.admit import DeviceSnapshot
from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.policy import Eviction, Policy, Proposal
from gpuq.core.state.index import SchedulingClass, scheduling_class
from gpuq.core.state.job import Job
from gpuq.policies.lists.backfill import Backfill, skip
from gpuq.policies.lists.order import QueueOrder
from gpuq.policies.lists.pausing import PausingPass
from gpuq.policies.lists.placement import Placement, packed, try_each
from gpuq.policies.lists.preemption import Preemption, no_preemption
from gpuq.policies.lists.trying import TryingPass


def list_scheduler(
    order: QueueOrder, backfill: Backfill = skip, placement: Placement = packed, preemption: Preemption = no_preemption
) -> Policy:
    """The policy with these parts."""

    def policy(context: SchedulingContext) -> Iterator[Proposal | Eviction]:
        ahead, preempt, pausing = backfill(context), preemption(context), PausingPass(context)
        trying = TryingPass(context)
        # First the jobs for which others were stopped in an earlier pass: otherwise a job of higher rank could take the freed
        # devices, and the stop would have been in vain.
        yield from preempt.starts_on_freed_devices()
        for job in in_order(context, order):
            # A known refusal saves the tries, but not the backfill rule and preemption.
            if not context.refused(job):
                choices = (choice for choice in placement(context, job) if ahead.allows(job, choice))
                yield from try_each(context, job, choices)
            if not context.placed(job):
                yield from (trial for trial in trying.proposals(job) if ahead.allows(job, _snapshots(context, trial)))
            if not context.placed(job):
                yield from pausing.proposals(job)
            if not context.placed(job):
                yield from preempt.evictions(job)
                if not ahead.hold(job):
                    return

    return policy


def _snapshots(context: SchedulingContext, proposal: Proposal) -> tuple[DeviceSnapshot, ...]:
    return tuple(context.snapshot(device.id) for device in proposal.devices)


def in_order(context: SchedulingContext, order: QueueOrder) -> Iterator[Job]:
    """The waiting jobs by rank, except those of a scheduling class of which a job was just tried and not started.

    Jobs of one scheduling class get the same verdicts everywhere, so the rest of the class cannot start in this pass either. This
    is what keeps a pass over thousands of waiting jobs short. Ranks are computed lazily: a heap holds only the head of each line
    of jobs that are in order already, as in a k-way merge. Once the pass has judged as much as one may, the rest is left to the
    next.
    """
    rank = order.ranking(context)
    if order.first_come:
        lines = [(group.scheduling_class, iter(group.jobs)) for group in context.groups]
    else:
        lines = [(scheduling_class(job), iter([job])) for job in context.waiting]
    heads = [(rank(job), job.id, job, class_, line) for class_, line in lines for job in (next(line),)]
    heapify(heads)
    stuck: set[SchedulingClass] = set()
    while heads:
        _, _, job, class_, line = heads[0]
        over_quota = context.over_quota(job)
        if class_ not in stuck and not over_quota and not context.placed(job):
            if context.is_spent:
                context.go_on_after(stuck)
                return
            yield job
            if not context.placed(job):
                stuck.add(class_)
        # The jobs of a line have the same quotas, so the rest of it cannot start either.
        following = None if class_ in stuck or over_quota else next(line, None)
        if following is None:
            heappop(heads)
        else:
            heapreplace(heads, (rank(following), following.id, following, class_, line))
