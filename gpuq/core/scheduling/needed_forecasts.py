"""Which questions are worth predicting now? Finite, and none twice: the shell answers them and asks again until none is left.

First what each waiting signature needs alone on each sort of device; then, for what fits by that, what the pairs cost. Who was
refused everywhere, with nothing new since, is not asked about.
"""

from __future__ import annotations

from gpuq.core.scheduling.admit import Place
from gpuq.core.scheduling.cache import question, question_alone
from gpuq.core.scheduling.context import Board
from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.forecast import Answers, Question
from gpuq.core.state.index import likeness
from gpuq.core.state.job import Job
from gpuq.core.state.state import State


def ask(state: State, answers: Answers, limits: Limits, now: float) -> list[Question]:
    """Questions without an answer yet, in a stable order; empty when `decide` has all it needs."""
    board = Board(state, answers, limits, now)
    heads = (next(iter(groups.values())).head for groups in state.index.alike.values())
    hopeful = [job for job in heads if not board.refused(job)]
    alone = board.known.alone
    sorts = board.known.places.sorts.items()
    missing = [
        question_alone(job, device) for job in hopeful for sort, device in sorts if (job.signature, sort) not in alone
    ]
    missing = [q for q in dict.fromkeys(missing) if q not in board.known]
    if missing or not board.shares:
        return missing
    beside = (question(job, place) for job in hopeful for place in _not_asked_about(board, job))
    return [q for q in dict.fromkeys(beside) if q not in board.known]


def _not_asked_about(board: Board, job: Job) -> list[Place]:
    """Once for what there is now: the shell answers whatever it is asked."""
    memo, turn = board.known.memo(likeness(job)), board.known.places.turn
    if memo.asked_at == turn:
        return []
    memo.asked_at = turn
    return board.shared_options(job)
