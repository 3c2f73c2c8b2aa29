"""When those who wait will probably start, worked out now and then beside the passes, for the live view.

Arrives: the state and the answers of a pass. Leaves: for each waiting job two moments, and two for one that came now; a moment
that nobody can foretell is left out. What earlier starts taught is kept in memory only: after a restart it is learnt again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from math import isfinite

from gpuq.core.board import Board
from gpuq.core.forecast import Answers
from gpuq.core.job import Job, JobId, KindId
from gpuq.core.known import Known
from gpuq.core.limits import Limits
from gpuq.core.state import State
from gpuq.policies.teller import Teller
from gpuq.policies.waiting import ExpectedStart
from gpuq.settings import Scheduling

log = logging.getLogger(__name__)

# Seconds between two looks, and the share of the time that they may take.
_EVERY_S, _SHARE = 5.0, 0.05
# Who is foretold a start: so many, the first to go; those behind them wait long, however long that is.
_MOST = 300
_NEWCOMER = JobId(-2)

Moments = tuple[float, float]


class Starts:
    """`jobs` and `newcomer` are unix times: the median and the 90th percentile, as last worked out."""

    def __init__(self, scheduling: Scheduling, clock: Callable[[], float]) -> None:
        by_size = scheduling.policy == "shortest" or (scheduling.policy == "packed" and scheduling.order == "shortest")
        strict = scheduling.policy == "fifo" or (scheduling.policy == "packed" and scheduling.backfill == "strict")
        self._teller = Teller(overtaking=scheduling.overtaking if by_size else 0.0, skips=not strict)
        self._clock = clock
        self._next_at = float("-inf")
        self.jobs: dict[JobId, Moments] = {}
        self.newcomer: Moments | None = None

    def refresh(self, state: State, answers: Answers, limits: Limits, now: float) -> None:
        """Look again where it is time. A fault here is logged: it must hurt no job."""
        if now < self._next_at:
            return
        started = self._clock()
        try:
            self._look(_copied(state, answers, limits, now))
        except Exception:
            log.exception("expected starts", extra={"action": "starts"})
            self.jobs, self.newcomer = {}, None
        self._next_at = now + max(_EVERY_S, (self._clock() - started) / _SHARE)

    def _look(self, board: Board) -> None:
        self._teller.watch(board)
        first = self._teller.in_order(board)[:_MOST]
        newcomer = Job(_NEWCOMER, KindId(""), "", "", board.now, since=board.now)
        found = self._teller.among(board, [*first, newcomer])
        for job in first:
            self._teller.remember(board, job)
        self.newcomer = _moments(found.pop(_NEWCOMER), board.now) if len(first) < _MOST else None
        self.jobs = {job: moments for job, start in found.items() if (moments := _moments(start, board.now))}


def _copied(state: State, answers: Answers, limits: Limits, now: float) -> Board:
    """A copy, as what passes remember between them is theirs; but for whom they keep devices."""
    board = Board(state, dict(answers), limits, now)
    if isinstance(answers, Known):
        board.known.kept = answers.kept
    return board


def _moments(start: ExpectedStart, now: float) -> Moments | None:
    return (now + start.p50_s, now + start.p90_s) if isfinite(start.p90_s) else None
