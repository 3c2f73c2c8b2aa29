"""The default policy: the highest priority first, then the longest waiting; an idle device if there is one, else the least
loaded shared one. What does not fit now is skipped, so that a job that cannot start does not hold up one that can.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuq.core.board import Board
from gpuq.core.job import Job
from gpuq.core.policy import Policy, Proposal
from gpuq.policies.recipe import Recipe
from gpuq.settings import Scheduling


def packed(board: Board) -> Iterator[Proposal]:
    """Proposals, best first. Idle devices before shared ones: sharing costs something, waiting beside an idle GPU too."""
    for job in sorted(board.waiting, key=_order):
        if board.refused(job):
            continue
        for places in board.choices(job):
            yield Proposal(job, tuple(place.device for place in places))
            if board.placed(job):
                break


def _make(scheduling: Scheduling) -> Policy:  # noqa: ARG001 - every policy is made like this
    return packed


def _order(job: Job) -> tuple[int, float, int]:
    return (-job.priority, job.submitted_at, job.id)


RECIPE = Recipe("interference-aware packing on what is foretold; the default", _make, work_conserving=True)
