"""A policy out of parts: an order, a backfill, a placement, and who may be stopped for whom.

It tries the jobs in their order, each in its places, best first. Of jobs that get the same verdicts everywhere, only the
first that cannot start is tried in a pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heapreplace

from gpuq.core.scheduling.context import Board
from gpuq.core.scheduling.policy import Eviction, Policy, Proposal
from gpuq.core.state.index import Likeness, likeness
from gpuq.core.state.job import Job
from gpuq.policies.lists.backfill import Backfill, skip
from gpuq.policies.lists.order import Order
from gpuq.policies.lists.placement import Placement, packed
from gpuq.policies.lists.preemption import Preemption, nobody


def listed(
    order: Order, backfill: Backfill = skip, placement: Placement = packed, preemption: Preemption = nobody
) -> Policy:
    """The policy of these parts."""

    def policy(board: Board) -> Iterator[Proposal | Eviction]:
        gate, room = backfill(board), preemption(board)
        yield from room.promised()
        for job in in_order(board, order):
            if not board.refused(job):
                for places in placement(board, job):
                    if room.allows(places) and gate.allows(job, places):
                        yield Proposal(job, tuple(place.device for place in places))
                        if board.placed(job):
                            break
            if not board.placed(job):
                yield from room.make(job)
                if not gate.hold(job):
                    return

    return policy


def in_order(board: Board, order: Order) -> Iterator[Job]:
    """The waiting jobs, first to last. Ranks are worked out as they are needed, and none for the like of one that was not
    placed when it was given out: they could not be either."""
    rank = order.ranking(board)
    lines = [(like, iter(jobs)) for like, jobs in _lines(board, order)]
    heads = [(rank(job), job.id, job, like, line) for like, line in lines for job in (next(line),)]
    heapify(heads)
    stuck: set[Likeness] = set()
    while heads:
        _, _, job, like, line = heads[0]
        if like not in stuck and not board.placed(job):
            yield job
            if not board.placed(job):
                stuck.add(like)
        following = None if like in stuck else next(line, None)
        if following is None:
            heappop(heads)
        else:
            heapreplace(heads, (rank(following), following.id, following, like, line))


def _lines(board: Board, order: Order) -> list[tuple[Likeness, list[Job]]]:
    """The waiting jobs in lines, each first to last by the order, with what the jobs of a line have in common."""
    if order.first_come:
        return [(group.likeness, group.jobs) for group in board.groups]
    return [(likeness(job), [job]) for job in board.waiting]
