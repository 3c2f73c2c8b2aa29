"""The daemon's side of learning: the predictor, kept up to date from the record as attempts end.

Arrives: questions, finished attempts, a published model. Leaves: answers as plain data. Serving only: no scikit-learn, no
TensorFlow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from gpuq.adapters.store.contract import AttemptRow, JobRow, Store
from gpuq.codec import noun
from gpuq.core.measuring.measurement import Measurement
from gpuq.core.measuring.slowdown import Rate, rates
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.forecast import Forecast, Question
from gpuq.core.state.job import JobId, KindId
from gpuq.learn.history.history import History, outcome_from_rows
from gpuq.learn.serving.predictor import Predictor
from gpuq.learn.serving.shelf import Shelf
from gpuq.settings import Learning
from gpuq.submission import JobRecord

# Outcomes read at start; older ones say little about today's code.
_HISTORY_AT_START_S = 180 * 86_400.0
_ALONE_RATES_KEPT = 16


class Learner:
    """Answers the core's questions; learns from each finished attempt at once."""

    def __init__(self, store: Store, shelf: Shelf, settings: Learning) -> None:
        self._store = store
        self._shelf = shelf
        self._history = History()
        self._predictor = Predictor(self._history, None, settings)
        self._alone: dict[tuple[KindId, str], deque[Rate]] = {}
        self._features: dict[str, Mapping[str, Any]] = {}
        self.kinds: dict[JobId, KindId] = {}
        self.model_version: str | None = None

    def catch_up(self, now: float) -> None:
        """Read the record and the current model. Blocks."""
        types = self._device_types()
        for job_row, attempt_row in self._store.finished_attempts(since=now - _HISTORY_AT_START_S):
            self._take_up(job_row, attempt_row, types)
        self.load_model()

    def register(self, job: JobId, record: JobRecord) -> None:
        """Make a job's features known before it is asked about."""
        self.kinds[job] = KindId(record.kind)
        self._features[record.signature] = record.features
        self._predictor.register(record.signature, record.features, record.kind)

    def features_of(self, signature: str) -> Mapping[str, Any]:
        """The features that forecasts for this signature are made from."""
        return self._features.get(signature, {})

    def answer(self, questions: Iterable[Question]) -> dict[Question, Forecast]:
        """A forecast for each question."""
        return self._predictor.answer(questions)

    def alone_rate(self, kind: KindId, device_type: str) -> Rate | None:
        """The kind's usual progress with no partner; None if never measured.

        Over its latest attempts; from a single one, over that one's windows, so that even then the spread is known.
        """
        found = list(self._alone.get((kind, device_type), ()))
        return found[0] if len(found) == 1 else Rate.of([rate.mean for rate in found])

    def drift(self) -> dict[str, Any]:
        """Whether forecasts still hold: figures over all, and the kinds that deviate most."""
        return self._predictor.drift.report()

    def learn(self, attempt: AttemptId, end: Mapping[str, Any]) -> None:
        """Take up a finished attempt: its launch from the record, its end as it is about to be recorded. Blocks."""
        job_row = self._store.job(attempt.job)
        rows = [row for row in self._store.attempts(attempt.job) if row.number == attempt.number]
        if job_row is None or not rows:
            return
        self._take_up(job_row, msgspec.structs.replace(rows[0], **end), self._device_types())

    def load_model(self) -> None:
        """Serve the shelf's current model from now on. Blocks."""
        model = self._shelf.load_current()
        self._predictor.use(model)
        self.model_version = model.version if model else None

    def _take_up(self, job_row: JobRow, attempt_row: AttemptRow, types: Mapping[str, str]) -> None:
        outcome = outcome_from_rows(job_row, attempt_row, types)
        if outcome is None:
            return
        self._predictor.learn(outcome)
        seen = rates(noun(attempt_row.measurement, Measurement)) if attempt_row.measurement else None
        alone = (seen.alone or seen.blinked) if seen else None
        if alone is not None:
            key = (KindId(outcome.kind), outcome.device_type)
            self._alone.setdefault(key, deque(maxlen=_ALONE_RATES_KEPT)).append(alone)

    def _device_types(self) -> dict[str, str]:
        return {device.id: device.type for device in self._store.devices()}
