"""Forecasts as the core asks for them.

The core does not predict; it asks questions, and the shell answers them from a model, a table or the truth of a simulated world.
At the beginning of a pass the needs of each class of waiting jobs alone on each class of device are asked for. The costs of pairs
are asked for when jobs are judged: few pairs pass the load rule and memory, and which of them matter depends on what the policy
has started before. Until the shell says that something was learned, the same question has the same answer. So decisions do not
depend on what was asked before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from gpuq.core.state.forecast import Forecast, Question
from gpuq.core.state.state import State

# Forecasts for jobs that are gone are dropped when there are this many, or twice as many as after the last time.
_PRUNE_FROM = 1000
Answer = Callable[[Iterable[Question]], Mapping[Question, Forecast]]


class ForecastTable:
    """The answers to the questions of the core; each is asked once until `forget`."""

    def __init__(self, answer: Answer) -> None:
        self.known: dict[Question, Forecast] = {}
        self._answer = answer
        self._prune_at = _PRUNE_FROM

    def forget(self) -> None:
        """Drop all forecasts, because the predictor has learned something."""
        # A new mapping instead of clearing this one: by that a `PassCache` notices that its conclusions rest on old forecasts.
        self.known = {}

    def ask(self, questions: Iterable[Question]) -> None:
        """Have those answered at once that have no answer yet."""
        missing = dict.fromkeys(question for question in questions if question not in self.known)
        if missing:
            self.known.update(self._answer(missing))

    def prune(self, state: State) -> None:
        """Drop forecasts for jobs that do not wait any more, once there are many."""
        if len(self.known) > self._prune_at:
            waiting = {job.signature for job in state.index.waiting.values()}
            for question in [question for question in self.known if question.signature not in waiting]:
                del self.known[question]
            self._prune_at = 2 * len(self.known) + _PRUNE_FROM
