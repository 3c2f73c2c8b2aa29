"""Forecasts as the daemon would make them from a record: its predictor, with the history of the record's attempts.

It learns nothing during the simulation; for learning that goes on see `gpuq.sim.learned`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gpuq.core.state.forecast import Forecast, Question
from gpuq.learn.history.history import History
from gpuq.learn.history.outcome import Outcome
from gpuq.learn.serving.predictor import Predictor
from gpuq.settings import Learning
from gpuq.sim.record import SimulatedAttempt
from gpuq.sim.trace import JobArrival


class RecordForecaster:
    """A `Forecaster` with a fixed history."""

    def __init__(self, outcomes: Sequence[Outcome], learning: Learning) -> None:
        self._predictor = Predictor(History(), None, learning)
        self._signatures: dict[str, str] = {}
        for outcome in outcomes:
            self._predictor.register(outcome.signature, outcome.features, outcome.kind)
            self._predictor.learn(outcome)
            self._signatures[outcome.kind] = outcome.signature

    def signature(self, arrival: JobArrival) -> str:
        """The latest signature of this kind in the record; the kind itself where there is none."""
        return self._signatures.get(arrival.kind, arrival.kind)

    def answer(self, questions: Iterable[Question]) -> Mapping[Question, Forecast]:
        """The predictor's forecast for each."""
        return self._predictor.answer(questions)

    def learn(self, attempt: SimulatedAttempt, now: float) -> bool:  # noqa: ARG002 - the interface of Forecaster
        """Does nothing."""
        return False

    def watch(self, running: Iterable[SimulatedAttempt]) -> bool:  # noqa: ARG002 - the interface of Forecaster
        """Does nothing."""
        return False

    def train(self, now: float) -> None:
        """Does nothing."""
