"""Forecasts as the daemon would give them from a record: the real predictor, taught by what the record's attempts showed.

Arrives: outcomes, and each kind's signature and features. Leaves: forecasts. Learns nothing more during the simulation: for a
simulation in which learning goes on, see `learned.py`.
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
    """See the module's own words; a `Beliefs`."""

    def __init__(self, outcomes: Sequence[Outcome], learning: Learning) -> None:
        self._predictor = Predictor(History(), None, learning)
        self._signatures: dict[str, str] = {}
        for outcome in outcomes:
            self._predictor.register(outcome.signature, outcome.features, outcome.kind)
            self._predictor.learn(outcome)
            self._signatures[outcome.kind] = outcome.signature

    def signature(self, arrival: JobArrival) -> str:
        """The latest that the record has of this kind; the kind itself for one that it does not have."""
        return self._signatures.get(arrival.kind, arrival.kind)

    def answer(self, questions: Iterable[Question]) -> Mapping[Question, Forecast]:
        """What the record says of each."""
        return self._predictor.answer(questions)

    def learn(self, attempt: SimulatedAttempt, now: float) -> bool:  # noqa: ARG002 - it is a Beliefs
        """Ignored."""
        return False

    def train(self, now: float) -> None:
        """Ignored."""
