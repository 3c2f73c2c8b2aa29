"""The model shelf as the API shows it, read-only: what serves, and what is believed of a job now.

Arrives: the shelf's folder and the record's finished attempts. Leaves: plain data. The dispatcher's forecasts are the ones
that decide; these are made in the same way from the same record, for people who ask.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from gpuq.adapters.store.contract import Store
from gpuq.core.state.device import Device
from gpuq.core.state.forecast import UNKNOWN, Forecast
from gpuq.learn.history.history import History
from gpuq.learn.history.outcome import outcome_from_rows
from gpuq.learn.serving.predictor import Predictor
from gpuq.learn.serving.shelf import Shelf
from gpuq.settings import Learning
from gpuq.submission import JobRecord

_REUSE_S = 1.0
_LATE_S = 120.0


@dataclass(frozen=True)
class Belief:
    """A forecast with what it rests on. `judged`: what the serving model reached on attempts that it had not seen."""

    device_type: str
    forecast: Forecast
    runs: int
    nearest: tuple[tuple[str, float], ...]
    quantile: float
    judged: Mapping[str, Any] | None = None


class ShelfModels:
    """Forecasts from the record as it was a second ago. Safe to use from several threads."""

    def __init__(self, store: Store, shelf: Shelf, learning: Learning, clock: Callable[[], float]) -> None:
        self._store = store
        self._shelf = shelf
        self._clock = clock
        self._lock = threading.Lock()
        self._predictor = Predictor(History(), None, learning)
        self._model: str | None = None
        self._seen_until = 0.0
        self._seen: dict[tuple[int, int], float] = {}
        self._caught_up_at = float("-inf")
        self._types: list[str] = []
        self._quantile = learning.quantile
        self._judged: dict[str, Any] | None = None

    def status(self) -> dict[str, Any]:
        """The current version, and each version with its card or its problem."""
        return self._shelf.status()

    def forecast(self, record: JobRecord) -> dict[str, Any]:
        """What this job would need alone, on the first type of device for which there is evidence."""
        return self.forecasts([record])[record.signature]

    def forecasts(self, records: Iterable[JobRecord]) -> dict[str, dict[str, Any]]:
        """Signature -> the same, for many jobs; those of one signature are foretold once."""
        different = {record.signature: record for record in records}
        with self._lock:
            self._catch_up()
            return {signature: msgspec.to_builtins(self._best(record)) for signature, record in different.items()}

    def beliefs(self, record: JobRecord, questions: Sequence[tuple[Device, tuple[str, ...]]]) -> list[Belief]:
        """What is believed of this job on each device, beside these kinds, and what that rests on."""
        with self._lock:
            self._catch_up()
            return [self._belief(record, device, beside) for device, beside in questions]

    def _best(self, record: JobRecord) -> Forecast:
        found = [self._predictor.forecast_for(record.kind, record.features, name) for name in self._types]
        return next((one for one in found if one.known), found[0] if found else UNKNOWN)

    def _belief(self, record: JobRecord, device: Device, beside: tuple[str, ...]) -> Belief:
        kind, features = record.kind, record.features
        support = self._predictor.support(kind, features, device.type)
        return Belief(
            device_type=device.type,
            forecast=self._predictor.forecast_for(kind, features, device.type, beside, device.sharing),
            runs=support.runs,
            nearest=support.nearest,
            quantile=self._quantile,
            judged=self._judged,
        )

    def _catch_up(self) -> None:
        now = self._clock()
        if 0 <= now - self._caught_up_at < _REUSE_S:
            return
        self._caught_up_at = now
        devices = self._store.devices()
        self._types = list(dict.fromkeys(device.type for device in devices))
        types = {str(device.id): device.type for device in devices}
        self._learn(types)
        if self._shelf.current() != self._model:
            self._model = self._shelf.current()
            loaded = self._shelf.load_serving()
            self._predictor.use(loaded.model)
            card = self._shelf.card(loaded.version) if loaded.version else None
            self._judged = ((card or {}).get("figures") or {}).get("candidate")

    def _learn(self, types: dict[str, str]) -> None:
        """Take up what ended since the last look, and a little before: ends are committed out of order."""
        since = max(0.0, self._seen_until - _LATE_S)
        self._seen = {attempt: ended for attempt, ended in self._seen.items() if ended >= since}
        for job, attempt in self._store.finished_attempts(since=since):
            ended = attempt.ended_at or 0.0
            if (job.id, attempt.number) in self._seen:
                continue
            self._seen[job.id, attempt.number] = ended
            self._seen_until = max(self._seen_until, ended)
            outcome = outcome_from_rows(job, attempt, types)
            if outcome is not None:
                self._predictor.learn(outcome)
