"""A policy out of parts: an order, a backfill, a placement, and who may be stopped for whom.

It tries the jobs in their order, each in its places, best first. Of jobs that get the same verdicts everywhere, only the
first that cannot start is tried in a pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heapreplace

from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.policy import Eviction, Policy, Proposal
from gpuq.core.state.index import SchedulingClass, scheduling_class
from gpuq.core.state.job import Job
from gpuq.policies.lists.backfill import Backfill, skip
from gpuq.policies.lists.order import Order
from gpuq.policies.lists.placement import Placement, packed
from gpuq.policies.lists.preemption import Preemption, nobody


def listed(
    order: Order, backfill: Backfill = skip, placement: Placement = packed, preemption: Preemption = nobody
) -> Policy:
    """The policy of these parts."""

    def policy(context: SchedulingContext) -> Iterator[Proposal | Eviction]:
        gate, room = backfill(context), preemption(context)
        yield from room.promised()
        for job in in_order(context, order):
            if not context.refused(job):
                for snapshots in placement(context, job):
                    if gate.allows(job, snapshots):
                        yield Proposal(job, tuple(snapshot.device for snapshot in snapshots))
                        if context.placed(job):
                            break
            if not context.placed(job):
                yield from room.make(job)
                if not gate.hold(job):
                    return

    return policy


def in_order(context: SchedulingContext, order: Order) -> Iterator[Job]:
    """The waiting jobs, first to last. Ranks are worked out as they are needed, and none for the like of one that was not
    placed when it was given out: they could not be either."""
    rank = order.ranking(context)
    lines = [(like, iter(jobs)) for like, jobs in _lines(context, order)]
    heads = [(rank(job), job.id, job, like, line) for like, line in lines for job in (next(line),)]
    heapify(heads)
    stuck: set[SchedulingClass] = set()
    while heads:
        _, _, job, like, line = heads[0]
        if like not in stuck and not context.placed(job):
            yield job
            if not context.placed(job):
                stuck.add(like)
        following = None if like in stuck else next(line, None)
        if following is None:
            heappop(heads)
        else:
            heapreplace(heads, (rank(following), following.id, following, like, line))


def _lines(context: SchedulingContext, order: Order) -> list[tuple[SchedulingClass, list[Job]]]:
    """The waiting jobs in lines, each first to last by the order, with what the jobs of a line have in common."""
    if order.first_come:
        return [(group.scheduling_class, group.jobs) for group in context.groups]
    return [(scheduling_class(job), [job]) for job in context.waiting]
