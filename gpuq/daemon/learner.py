"""Keeps the dispatcher's predictor up to date: from the record at its start, and from each attempt as it ends.

It only serves forecasts. Training runs in a process of its own, so scikit-learn and TensorFlow are not imported here and their
memory does not count towards the dispatcher.
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

# Attempts that are read at the start. What users run half a year later is mostly other code.
_HISTORY_AT_START_S = 180 * 86_400.0
# Latest attempts per kind and device type from which the usual progress is computed.
_ALONE_RATES_KEPT = 16


class Learner:
    """Forecasts for the core, from the history of finished attempts and the current model."""

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
        """Read the finished attempts of the record and load the current model. Blocks."""
        types = self._device_types()
        for job_row, attempt_row in self._store.finished_attempts(since=now - _HISTORY_AT_START_S):
            self._learn_from(job_row, attempt_row, types)
        self.load_model()

    def register(self, job: JobId, record: JobRecord) -> None:
        """Register a job's features. Must come before the first question about it."""
        self.kinds[job] = KindId(record.kind)
        self._features[record.signature] = record.features
        self._predictor.register(record.signature, record.features, record.kind)

    def features_of(self, signature: str) -> Mapping[str, Any]:
        """The features of the jobs with this signature; empty if none was registered."""
        return self._features.get(signature, {})

    def answer(self, questions: Iterable[Question]) -> dict[Question, Forecast]:
        """A forecast for each question."""
        return self._predictor.answer(questions)

    def alone_rate(self, kind: KindId, device_type: str) -> Rate | None:
        """Steps per second of the kind without a partner, over its latest attempts; None if never measured.

        The spread is that between attempts. With a single attempt it is the one between the windows of its measurement.
        """
        measured = list(self._alone.get((kind, device_type), ()))
        return measured[0] if len(measured) == 1 else Rate.of([rate.mean for rate in measured])

    def drift(self) -> dict[str, Any]:
        """How well recent forecasts held, over all kinds and for those that deviate most, as plain JSON values."""
        return self._predictor.drift.report()

    def learn(self, attempt: AttemptId, end: Mapping[str, Any]) -> None:
        """Learn from a finished attempt. `end` are columns about to be committed, the rest is in the record. Blocks."""
        job_row = self._store.job(attempt.job)
        rows = [row for row in self._store.attempts(attempt.job) if row.number == attempt.number]
        if job_row is None or not rows:
            return
        self._learn_from(job_row, msgspec.structs.replace(rows[0], **end), self._device_types())

    def load_model(self) -> None:
        """Load the shelf's current model and forecast by it from now on. Blocks."""
        model = self._shelf.load_current()
        self._predictor.use(model)
        self.model_version = model.version if model else None

    def _learn_from(self, job_row: JobRow, attempt_row: AttemptRow, types: Mapping[str, str]) -> None:
        outcome = outcome_from_rows(job_row, attempt_row, types)
        if outcome is None:
            return
        self._predictor.learn(outcome)
        measured = rates(noun(attempt_row.measurement, Measurement)) if attempt_row.measurement else None
        # A blink pauses the partners, so it measures the job alone too, if less precisely.
        alone = (measured.alone or measured.blinked) if measured else None
        if alone is not None:
            key = (KindId(outcome.kind), outcome.device_type)
            self._alone.setdefault(key, deque(maxlen=_ALONE_RATES_KEPT)).append(alone)

    def _device_types(self) -> dict[str, str]:
        return {device.id: device.type for device in self._store.devices()}
