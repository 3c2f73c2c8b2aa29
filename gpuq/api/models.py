"""What the model shelf and the record say, for `gpuq model status` and `gpuq predict`. Reads only; the dispatcher decides.

Arrives: the record and the shelf. Leaves: plain data. It keeps its own predictor, brought up to date from the record before
each answer, so that it says what the dispatcher would.
"""

from __future__ import annotations

from threading import Lock
from typing import Any

from gpuq.adapters.store.contract import Store
from gpuq.codec import plain
from gpuq.core.forecast import UNKNOWN, Forecast
from gpuq.learn.history import History
from gpuq.learn.outcome import outcome_from_rows
from gpuq.learn.predictor import Predictor
from gpuq.learn.shelf import Shelf
from gpuq.settings import Learning
from gpuq.submission import JobRecord


class ShelfModels:
    """See the module's own words. Both calls block."""

    def __init__(self, store: Store, shelf: Shelf, learning: Learning) -> None:
        self._store = store
        self._shelf = shelf
        self._predictor = Predictor(History(), None, learning)
        self._read_up_to = 0.0
        self._one_at_a_time = Lock()

    def status(self) -> dict[str, Any]:
        """What serves, since when, and how well."""
        return self._shelf.status()

    def forecast(self, record: JobRecord) -> dict[str, Any]:
        """A plain Forecast for this job alone, on the first type of device there is evidence for."""
        types = dict.fromkeys(device.type for device in self._store.devices())
        with self._one_at_a_time:
            self._catch_up()
            found = [self._predictor.forecast_for(record.kind, record.features, type_) for type_ in types]
        forecast: Forecast = next((f for f in found if f.known), UNKNOWN)
        body: dict[str, Any] = plain(forecast)
        return body

    def _catch_up(self) -> None:
        self._predictor.use(self._shelf.load_current())
        types = {device.id: device.type for device in self._store.devices()}
        for job, attempt in self._store.finished_attempts(since=self._read_up_to):
            self._read_up_to = max(self._read_up_to, attempt.ended_at or 0.0)
            outcome = outcome_from_rows(job, attempt, types)
            if outcome is not None:
                self._predictor.learn(outcome)
