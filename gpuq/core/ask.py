"""Which questions are worth predicting now? Finite, and none twice: the shell answers them and asks again until none is left.

First what each waiting signature needs alone on each sort of device; then, for what fits by that, what the pairs cost.
"""

from __future__ import annotations

from gpuq.core.board import Board, likeness, question, question_alone, sort_of
from gpuq.core.forecast import Answers, Question
from gpuq.core.limits import Limits
from gpuq.core.state import State


def ask(state: State, answers: Answers, limits: Limits, now: float) -> list[Question]:
    """Questions without an answer yet, in a stable order; empty when `decide` has all it needs."""
    board = Board(state, answers, limits, now)
    sorts = {sort_of(place.device): place.device for place in board.places}
    like = {likeness(job): job for job in reversed(board.waiting)}
    alone = [question_alone(job, device) for job in like.values() for device in sorts.values()]
    missing = [q for q in dict.fromkeys(alone) if q not in answers]
    if missing or not board.shares:
        return missing
    beside = (question(job, place) for job in like.values() for place in board.shared_options(job))
    return [q for q in dict.fromkeys(beside) if q not in answers]
