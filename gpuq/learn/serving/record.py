"""The predictor over the record and the model shelf, as the dispatcher and the API both use it.

The dispatcher decides with its forecasts, and the API shows forecasts to people who ask (`gpuq predict`, `gpuq queue`). Each
process holds a `RecordPredictor` of its own. Both read the same attempts through the same function and serve the shelf's
current model, so what people are shown is what the dispatcher goes by, up to the second in which an attempt ends or a model is
published.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.device import Device
from gpuq.learn.history.history import History
from gpuq.learn.history.outcome import AttemptSide, JobSide, Outcome, outcome_from_rows
from gpuq.learn.serving.predictor import Predictor
from gpuq.learn.serving.shelf import Shelf
from gpuq.settings import Learning

# Older attempts say little about today's code.
_HISTORY_S = 180 * 86_400.0
# Ends may be committed somewhat out of order, so a second look begins this much before the newest end that was seen.
_LATE_S = 120.0


class FinishedAttempts(Protocol):
    """The part of the record that forecasts rest on; `adapters.store.contract.Store` has it."""

    def devices(self) -> list[Device]:
        """Every device ever reported."""
        ...

    def finished_attempts(self, *, since: float) -> Sequence[tuple[JobSide, AttemptSide]]:
        """Attempts that started and ended at `since` (Unix seconds) or later, oldest end first, with their jobs."""
        ...


class RecordPredictor:
    """A `Predictor` that follows the record and the shelf. Every call may block on the database; for one thread at a time."""

    def __init__(
        self, record: FinishedAttempts, shelf: Shelf, learning: Learning, limits: Limits | None = None
    ) -> None:
        self._record = record
        self._shelf = shelf
        self._seen_until = float("-inf")
        self._seen: dict[tuple[int, int], float] = {}
        self.predictor = Predictor(History(), None, learning, limits)
        self.device_types: dict[str, str] = {}
        """Device id -> type, of every device in the record at the last look."""
        self.model_version: str | None = None

    def catch_up(self, now: float) -> list[tuple[AttemptSide, Outcome]]:
        """Learn from every attempt that ended since the last look; gives those that taught something, oldest end first."""
        self._read_devices()
        # An end in the future was recorded before a wall clock was set back. It must not hide those that come until then.
        since = max(now - _HISTORY_S, min(self._seen_until, now) - _LATE_S)
        self._seen = {attempt: ended for attempt, ended in self._seen.items() if ended >= since}
        taught = []
        for job, attempt in self._record.finished_attempts(since=since):
            if (attempt.job, attempt.number) not in self._seen and (outcome := self._take(job, attempt)) is not None:
                taught.append((attempt, outcome))
        return taught

    def learn(self, job: JobSide, attempt: AttemptSide) -> Outcome | None:
        """Learn from one attempt at once, before its end is in the record. None where it teaches nothing."""
        self._read_devices()
        outcome = self._take(job, attempt)
        # Those that a later look would not read again. They are nearly in the order of their ends.
        since = (attempt.ended_at or 0.0) - _LATE_S
        while self._seen[oldest := next(iter(self._seen))] < since:
            del self._seen[oldest]
        return outcome

    def load_model(self) -> None:
        """Serve the shelf's current model from now on; a corrupt version is passed over and logged."""
        model = self._shelf.load_current()
        self.predictor.use(model)
        self.model_version = model.version if model else None

    def _read_devices(self) -> None:
        self.device_types = {device.id: device.type for device in self._record.devices()}

    def _take(self, job: JobSide, attempt: AttemptSide) -> Outcome | None:
        ended = attempt.ended_at or 0.0
        self._seen[attempt.job, attempt.number] = ended
        self._seen_until = max(self._seen_until, ended)
        outcome = outcome_from_rows(job, attempt, self.device_types)
        if outcome is not None:
            self.predictor.learn(outcome)
        return outcome
