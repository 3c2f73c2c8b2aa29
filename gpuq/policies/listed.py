"""A policy out of parts: an order, a backfill, a placement, and who may be stopped for whom.

It tries the jobs in their order, each in its places, best first. Of jobs that get the same verdicts everywhere, only the
first that cannot start is tried in a pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heapreplace
from operator import attrgetter

from gpuq.core.board import Board, Likeness, likeness
from gpuq.core.job import Job
from gpuq.core.policy import Eviction, Policy, Proposal
from gpuq.policies.backfill import Backfill, skip
from gpuq.policies.order import Order
from gpuq.policies.placement import Placement, packed
from gpuq.policies.preemption import Preemption, nobody


def listed(
    order: Order, backfill: Backfill = skip, placement: Placement = packed, preemption: Preemption = nobody
) -> Policy:
    """The policy of these parts."""

    def policy(board: Board) -> Iterator[Proposal | Eviction]:
        gate, room = backfill(board), preemption(board)
        yield from room.promised()
        stuck: set[Likeness] = set()
        for job in in_order(board, order, stuck):
            for places in placement(board, job):
                if room.allows(places) and gate.allows(job, places):
                    yield Proposal(job, tuple(place.device for place in places))
                    if board.placed(job):
                        break
            if not board.placed(job):
                stuck.add(likeness(job))
                yield from room.make(job)
                if not gate.hold(job):
                    return

    return policy


def in_order(board: Board, order: Order, stuck: set[Likeness]) -> Iterator[Job]:
    """The waiting jobs, first to last, less those whose like are stuck by then. Ranks are worked out as they are needed."""
    rank = order.ranking(board)
    lines = [iter(line) for line in _lines(board, order)]
    heads = [(rank(job), job.id, job, line) for line in lines for job in (next(line),)]
    heapify(heads)
    while heads:
        _, _, job, line = heads[0]
        if likeness(job) not in stuck and not board.placed(job):
            yield job
        following = None if likeness(job) in stuck else next(line, None)
        if following is None:
            heappop(heads)
        else:
            heapreplace(heads, (rank(following), following.id, following, line))


def _lines(board: Board, order: Order) -> list[list[Job]]:
    """The waiting jobs in lines, each first to last by the order."""
    if not order.first_come:
        return [[job] for job in board.waiting]
    lines: dict[tuple[Likeness, int, str], list[Job]] = {}
    for job in board.waiting:
        lines.setdefault((likeness(job), job.priority, job.owner), []).append(job)
    return [sorted(line, key=attrgetter("submitted_at", "id")) for line in lines.values()]
