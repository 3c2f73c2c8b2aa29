"""What the API shows of learning: the shelf's status, and the forecast for a job that is not submitted yet.

Arrives: a job's record; finished attempts and device types through two calls, so that this stays clear of the database.
Leaves: plain values. Any number of threads may ask; each question first takes up what ended since the last one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from gpuq.core.forecast import UNKNOWN, Forecast
from gpuq.learn.history import History
from gpuq.learn.outcome import AttemptSide, JobSide, outcome_from_rows
from gpuq.learn.predictor import Predictor
from gpuq.learn.shelf import Shelf
from gpuq.settings import Learning
from gpuq.submission import JobRecord

ReadFinished = Callable[[float], Iterable[tuple[JobSide, AttemptSide]]]
ReadDeviceTypes = Callable[[], Mapping[str, str]]
# Ends are committed about in their order; what comes this much later is still seen.
_LATE_S = 600.0


class Served:
    """See the module's own words. `finished(since)` reads ended attempts, `device_types()` maps device ids to types."""

    def __init__(self, shelf: Shelf, learning: Learning, finished: ReadFinished, device_types: ReadDeviceTypes) -> None:
        self._shelf = shelf
        self._finished = finished
        self._device_types = device_types
        self._predictor = Predictor(History(), None, learning)
        self._seen: dict[tuple[int, int], float] = {}
        self._newest = 0.0
        self._lock = threading.Lock()

    def status(self) -> dict[str, Any]:
        """What `gpuq model status` shows."""
        return self._shelf.status()

    def forecast(self, record: JobRecord) -> dict[str, Any]:
        """A plain Forecast for this job with no partner, on the type of device most is known for."""
        with self._lock:
            types = self._device_types()
            self._catch_up(types)
            forecasts = [
                self._predictor.forecast_for(record.kind, record.features, t) for t in sorted(set(types.values()))
            ]
        plain: dict[str, Any] = msgspec.to_builtins(max(forecasts, key=_evidence, default=UNKNOWN))
        return plain

    def _catch_up(self, types: Mapping[str, str]) -> None:
        for job, attempt in self._finished(self._newest - _LATE_S):
            key, ended = (attempt.job, attempt.number), attempt.ended_at or 0.0
            if key in self._seen:
                continue
            self._seen[key] = ended
            self._newest = max(self._newest, ended)
            outcome = outcome_from_rows(job, attempt, types)
            if outcome is not None:
                self._predictor.learn(outcome)
        self._seen = {key: ended for key, ended in self._seen.items() if ended >= self._newest - _LATE_S}
        if self._shelf.current() != self._predictor.version:
            self._predictor.use(self._shelf.load_current())


def _evidence(forecast: Forecast) -> tuple[bool, bool]:
    return forecast.known, forecast.evidence.startswith("own")
