"""Forecasts for people who ask, and the model shelf, read-only.

The forecasts come from the same `RecordPredictor` over the same record and shelf as the dispatcher's own, at most a second
behind.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from gpuq.adapters.store.contract import Store
from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.device import Device
from gpuq.core.state.forecast import UNKNOWN, Forecast
from gpuq.core.state.job import JobId
from gpuq.messages.job_record import JobRecord, ListedRecord, QueuedRecord
from gpuq.messages.live import LiveView
from gpuq.settings import Learning

if TYPE_CHECKING:
    from gpuq.learn.serving.record import RecordPredictor
    from gpuq.learn.serving.shelf import Shelf

_REUSE_S = 1.0


@dataclass(frozen=True)
class ExplainedForecast:
    """A forecast with what it rests on. `judged`: what the serving model reached on attempts that it had not seen."""

    device_type: str
    forecast: Forecast
    runs: int
    nearest: tuple[tuple[str, float], ...]
    quantile: float
    judged: Mapping[str, Any] | None = None


class ShelfModels:
    """The dispatcher's forecasts, worked out again here. Safe to use from several threads."""

    def __init__(
        self,
        store: Store,
        folder: Path,
        learning: Learning,
        clock: Callable[[], float],
        limits: Limits | None = None,
    ) -> None:
        """`folder` is the shelf's."""
        self._store = store
        self._folder = folder
        self._learning = learning
        self._limits = limits
        self._clock = clock
        self._lock = threading.Lock()
        self._shelf_current: str | None = None
        self._caught_up_at = float("-inf")
        self._judged: dict[str, Any] | None = None
        self._watched: set[tuple[int, int]] = set()

    # The predictor brings numpy, a fifth of this process's start; the first request for a forecast imports it.
    @cached_property
    def _shelf(self) -> Shelf:
        from gpuq.learn.serving.shelf import Shelf

        return Shelf(self._folder)

    @cached_property
    def _served(self) -> RecordPredictor:
        from gpuq.learn.serving.record import RecordPredictor

        return RecordPredictor(self._store, self._shelf, self._learning, self._limits)

    def status(self) -> dict[str, Any]:
        """The current version, and each version with its card or its problem."""
        return self._shelf.status()

    def watch(self, view: LiveView | None) -> None:
        """Let the attempts that run in this view count as far as they go, as the dispatcher does."""
        from gpuq.learn.history.outcome import OngoingAttempt

        on = [(device, resident) for device in view.devices for resident in device.residents] if view else []
        with self._lock:
            counted = [
                (device, resident)
                for device, resident in on
                if resident.level_s is not None or (resident.job, resident.attempt) in self._watched
            ]
            self._watched = {(resident.job, resident.attempt) for _, resident in counted}
            ids = sorted(JobId(job) for job, _ in self._watched)
            records = {row.id: row.record for row in self._store.lines(ids=ids)} if ids else {}
            running = [
                OngoingAttempt.of(
                    (resident.job, resident.attempt),
                    records[JobId(resident.job)].kind,
                    records[JobId(resident.job)].features,
                    device.type,
                    resident,
                    shared=bool(resident.partners),
                )
                for device, resident in counted
                if resident.job in records
            ]
            self._served.predictor.watch(running)

    def forecasts(self, records: Iterable[JobRecord | ListedRecord | QueuedRecord]) -> dict[str, dict[str, Any]]:
        """Signature -> what such a job would need alone, on the first type of device for which there is evidence."""
        different = {record.signature: record for record in records}
        with self._lock:
            self._catch_up()
            return {signature: msgspec.to_builtins(self._best(record)) for signature, record in different.items()}

    def explained_forecasts(
        self, kind: str, features: Mapping[str, Any], questions: Sequence[tuple[Device, tuple[str, ...]]]
    ) -> list[ExplainedForecast]:
        """The forecast of a job of this kind on each device, beside these kinds, and what it rests on."""
        explained = []
        with self._lock:
            self._catch_up()
            predictor = self._served.predictor
            for device, beside in questions:
                support = predictor.support(kind, features, device.type)
                explained.append(
                    ExplainedForecast(
                        device_type=device.type,
                        forecast=predictor.forecast_for(kind, features, device.type, beside, device.sharing),
                        runs=support.runs,
                        nearest=support.nearest,
                        quantile=self._learning.quantile,
                        judged=self._judged,
                    )
                )
        return explained

    def _best(self, record: JobRecord | ListedRecord | QueuedRecord) -> Forecast:
        types = dict.fromkeys(self._served.device_types.values())
        found = [self._served.predictor.forecast_for(record.kind, record.features, name) for name in types]
        return next((one for one in found if one.known), found[0] if found else UNKNOWN)

    def _catch_up(self) -> None:
        now = self._clock()
        if 0 <= now - self._caught_up_at < _REUSE_S:
            return
        self._caught_up_at = now
        self._served.catch_up(now)
        if self._shelf.current() != self._shelf_current:
            self._shelf_current = self._shelf.current()
            self._served.load_model()
            version = self._served.model_version
            card = self._shelf.card(version) if version else None
            self._judged = ((card or {}).get("figures") or {}).get("candidate")
