"""The default policy: the highest priority first, then the longest waiting; an idle device if there is one, else the least
loaded shared one. What does not fit now is skipped, so that a job that cannot start does not hold up one that can.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from gpuq.core.board import Board
from gpuq.core.job import Job
from gpuq.core.policy import Policy, Proposal
from gpuq.policies.recipe import Recipe
from gpuq.settings import Scheduling


def packed(board: Board) -> Iterator[Proposal]:
    """Proposals, best first. Idle devices before shared ones: sharing costs something, waiting beside an idle GPU too."""
    for job in _in_order(board):
        for places in board.choices(job):
            yield Proposal(job, tuple(place.device for place in places))
            if board.placed(job):
                break


def _in_order(board: Board) -> Iterator[Job]:
    """The jobs that may yet find a place: the rest of a group only as long as its jobs are placed."""
    heads = [(_order(group.head), 0, group) for group in board.groups if not board.refused(group.head)]
    heapq.heapify(heads)
    while heads:
        _, number, group = heads[0]
        job = group.jobs[number]
        if not board.refused(job):
            yield job
        number += 1
        if board.placed(job) and number < len(group.jobs):
            heapq.heapreplace(heads, (_order(group.jobs[number]), number, group))
        else:
            heapq.heappop(heads)


def _make(scheduling: Scheduling) -> Policy:  # noqa: ARG001 - every policy is made like this
    return packed


def _order(job: Job) -> tuple[int, float, int]:
    return (-job.priority, job.submitted_at, job.id)


RECIPE = Recipe("interference-aware packing on what is foretold; the default", _make, work_conserving=True)
