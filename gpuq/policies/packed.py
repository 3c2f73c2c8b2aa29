"""The default policy: the highest priority first, then the longest waiting; an idle device if there is one, else the least
loaded shared one. What does not fit now is skipped, so that a job that cannot start does not hold up one that can.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuq.core.board import Board
from gpuq.core.job import Job
from gpuq.core.policy import Proposal


def packed(board: Board) -> Iterator[Proposal]:
    """Proposals, best first. Idle devices before shared ones: sharing costs something, waiting beside an idle GPU too."""
    for job in sorted(board.waiting, key=_order):
        if board.refused(job):
            continue
        for place in board.options(job):
            yield Proposal(job, (place.device,))
            if board.placed(job):
                break


def _order(job: Job) -> tuple[int, float, int]:
    return (-job.priority, job.submitted_at, job.id)
