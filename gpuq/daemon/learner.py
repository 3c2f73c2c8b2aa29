"""The dispatcher's side of learning: answers the core's questions, and learns from each attempt as it ends.

Serving only: no scikit-learn, no TensorFlow. The forecasts themselves come from `gpuq.learn.serving.record`, which the API uses
too.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from gpuq.adapters.store.contract import Store
from gpuq.core.measuring.measurement import Measurement
from gpuq.core.measuring.slowdown import Rate, rates
from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.attempt import AttemptId
from gpuq.core.state.events import HostReported
from gpuq.core.state.forecast import Forecast, Question
from gpuq.core.state.job import JobId, KindId
from gpuq.core.state.state import State
from gpuq.learn.history.outcome import AttemptSide, OngoingAttempt, Outcome
from gpuq.learn.serving.record import RecordPredictor
from gpuq.learn.serving.shelf import Shelf
from gpuq.messages.codec import decoded
from gpuq.messages.job_record import JobRecord, QueuedRecord
from gpuq.settings import Learning

_ALONE_RATES_KEPT = 16
# So many jobs that are not in the state any more may still be named as the partners of attempts that run.
_ARCHIVED_KEPT = 10_000


class Learner:
    """The predictor, and what the dispatcher keeps beside it: each job's kind and features, and each kind's rate alone."""

    def __init__(self, store: Store, shelf: Shelf, settings: Learning, limits: Limits | None = None) -> None:
        self._store = store
        self._served = RecordPredictor(store, shelf, settings, limits)
        self._alone: dict[tuple[KindId, str], deque[Rate]] = {}
        self._features: dict[str, Mapping[str, Any]] = {}
        self._signatures: dict[JobId, str] = {}
        self._jobs_with: Counter[str] = Counter()
        self.kinds: dict[JobId, KindId] = {}
        self._archived: deque[JobId] = deque()
        self._running: dict[AttemptId, OngoingAttempt] = {}

    @property
    def model_version(self) -> str | None:
        """The version of the model that serves; None: history alone."""
        return self._served.model_version

    def catch_up(self, now: float) -> None:
        """Read the record and the current model. Blocks."""
        for attempt, outcome in self._served.catch_up(now):
            self._note_alone(attempt, outcome)
        self.load_model()

    def register(self, job: JobId, record: JobRecord | QueuedRecord) -> None:
        """Make a job's features known; needed before the first question about it."""
        self._forget(job)  # as it was before an edit
        self.kinds[job] = KindId(record.kind)
        self._signatures[job] = record.signature
        self._jobs_with[record.signature] += 1
        self._features[record.signature] = record.features
        self._served.predictor.register(record.signature, record.features, record.kind)

    def archive(self, job: JobId) -> None:
        """Note that a job has left the state. Of such jobs the kinds and features of the latest are kept."""
        self._archived.append(job)
        if len(self._archived) > _ARCHIVED_KEPT:
            self._forget(self._archived.popleft())

    def _forget(self, job: JobId) -> None:
        self.kinds.pop(job, None)
        signature = self._signatures.pop(job, None)
        if signature is not None:
            self._jobs_with[signature] -= 1
            if not self._jobs_with[signature]:
                del self._jobs_with[signature], self._features[signature]

    def features_of(self, signature: str) -> Mapping[str, Any]:
        """The features of the jobs with this signature; empty if none was registered."""
        return self._features.get(signature, {})

    def answer(self, questions: Iterable[Question]) -> dict[Question, Forecast]:
        """A forecast for each question."""
        return self._served.predictor.answer(questions)

    def alone_rate(self, kind: KindId, device_type: str) -> Rate | None:
        """The kind's usual progress with no partner, in steps/s; None if never measured.

        Over its latest attempts. A single attempt gives its own windows instead, so that even then the spread is known.
        """
        measured = list(self._alone.get((kind, device_type), ()))
        return measured[0] if len(measured) == 1 else Rate.of([rate.mean for rate in measured])

    def drift(self) -> dict[str, Any]:
        """Whether forecasts still hold: figures over all, and the kinds that deviate most."""
        return self._served.predictor.drift.report()

    def learn(self, attempt: AttemptId, end: Mapping[str, Any]) -> None:
        """Learn from a finished attempt: its launch from the record, its end as it is about to be recorded. Blocks."""
        job_row = self._store.job(attempt.job)
        row = next((row for row in self._store.attempts(attempt.job) if row.number == attempt.number), None)
        if job_row is None or row is None:
            return
        ended = msgspec.structs.replace(row, **end)
        outcome = self._served.learn(job_row, ended)
        if outcome is not None:
            self._note_alone(ended, outcome)

    def watch(self, reports: Iterable[HostReported], state: State) -> bool:
        """Learn from the attempts that run and whose memory has levelled off. Returns whether a forecast may change."""
        running = {id_: one for id_, one in self._running.items() if id_ in state.attempts}
        for resident in (resident for report in reports for resident in report.residents):
            attempt = state.attempts.get(resident.attempt)
            if attempt is None or (resident.level_s is None and resident.attempt not in running):
                continue
            job, device = state.jobs[attempt.id.job], state.devices[attempt.devices[0]]
            features, shared = self.features_of(job.signature), attempt.had_partner
            running[attempt.id] = OngoingAttempt.of(
                attempt.id, attempt.kind, features, device.type, resident, shared=shared
            )
        changed, self._running = running != self._running, running
        return changed and self._served.predictor.watch(running.values())

    def load_model(self) -> None:
        """Serve the shelf's current model from now on. Blocks."""
        self._served.load_model()

    def _note_alone(self, attempt: AttemptSide, outcome: Outcome) -> None:
        measured = rates(decoded(attempt.measurement, Measurement)) if attempt.measurement else None
        alone = (measured.alone or measured.blinked) if measured else None
        if alone is not None:
            key = (KindId(outcome.kind), outcome.device_type)
            self._alone.setdefault(key, deque(maxlen=_ALONE_RATES_KEPT)).append(alone)
