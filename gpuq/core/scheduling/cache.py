"""What was answered, and what passes concluded from it: kept by the shell from one pass to the next, so that a pass costs what
has changed, and forgotten when something was learned.

It is a mapping of answers, and the shell puts the new ones in. `ask` and `decide` also take plain answers; then a pass looks at
everything anew, and comes to the same. No truth is kept here: what is lost is worked out again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuq.core.scheduling.admit import DeviceSnapshot, fits_ever
from gpuq.core.scheduling.device_index import DeviceIndex
from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.device import Device, DeviceId
from gpuq.core.state.forecast import UNKNOWN, Forecast, Question
from gpuq.core.state.index import DeviceClass, SchedulingClass, device_class
from gpuq.core.state.job import Job, JobId
from gpuq.core.state.state import State
from gpuq.core.state.verdict import Rule, Verdict

# Likenesses come and go; what is kept of those that went is thrown away whenever it may be half of all.
_PRUNE_FROM = 1000


@dataclass(slots=True)
class ClassMemo:
    """What is known of jobs of one likeness. `refusals` has the turn in which a device was refused; after the turn `exhausted_at`
    only what changed since is worth a look. `reason` is why they wait, found at `reason_at`; `needs` is what sharing takes,
    and `asked_at` the turn in which pairs were last asked about."""

    refusals: dict[DeviceId, int] = field(default_factory=dict)
    exhausted_at: int | None = None
    reason: Verdict | None = None
    reason_at: int = 0
    needs: dict[DeviceClass, tuple[float, int]] | None = None
    asked_at: int = -1


@dataclass(frozen=True, slots=True)
class Reservation:
    """Devices kept for a job that waited too long, and for those like it, as chosen at `turn`."""

    job: JobId
    scheduling_class: SchedulingClass
    devices: frozenset[DeviceId]
    turn: int


class PassCache(dict[Question, Forecast]):
    """Forecasts and conclusions of earlier passes.

    `stale_reasons`: classes whose pending reason changed. `all_reasons_stale`: every pending reason has to be worked out again.
    `reasons_at`: the revision up to which the reasons hold. `deferred`: jobs that the policy itself deferred in the last pass.
    """

    def __init__(self, answers: dict[Question, Forecast] | None = None) -> None:
        super().__init__(answers or {})
        self._state: State | None = None
        self._limits = Limits()
        self._most = _PRUNE_FROM
        self._begin()

    def forget(self) -> None:
        """Something was learned: other answers may hold now. Who devices are kept for stays."""
        self.clear()
        self.memos.clear()
        self.alone.clear()
        self.all_reasons_stale = True

    def sync(self, state: State, limits: Limits, now: float) -> None:
        """Take in what changed since the last pass; begin anew with another state or other limits."""
        if self._state is not state or self._limits != limits:
            self._begin()
            self._state, self._limits = state, limits
        changes = self.device_index.device_changes
        self.device_index.sync(state, limits, now)
        if self.device_index.device_changes != changes:
            self._fits.clear()
            self.all_reasons_stale = True
        if len(self) + len(self.memos) > self._most:
            self._prune(state)

    def memo(self, like: SchedulingClass) -> ClassMemo:
        """What is known of these jobs; to be added to."""
        found = self.memos.get(like)
        if found is None:
            found = self.memos[like] = ClassMemo()
        return found

    def forecast(self, job: Job, snapshot: DeviceSnapshot) -> Forecast:
        """The answer to this job on this device beside who is there; the answer alone where no pair was asked about."""
        together = self.get(question(job, snapshot)) if snapshot.residents else None
        return together or self.forecast_alone(job, snapshot.device)

    def forecast_alone(self, job: Job, device: Device) -> Forecast:
        """The answer to this job with a device of this sort to itself; unknown where it was not asked."""
        key = (job.signature, device_class(device))
        found = self.alone.get(key)
        if found is None:
            found = self.get(question_alone(job, device))
            if found is None:
                return UNKNOWN
            self.alone[key] = found
        return found

    def never_fits(self, job: Job) -> Verdict | None:
        """Why no host could ever run this job; None if one could."""
        key = (job.declared_memory, job.device_count)
        if key not in self._fits:
            devices = list(self._state.devices.values()) if self._state else []
            self._fits[key] = fits_ever(*key, devices)
        return self._fits[key]

    def _begin(self) -> None:
        self.device_index = DeviceIndex()
        self.memos: dict[SchedulingClass, ClassMemo] = {}
        self.alone: dict[tuple[str, DeviceClass], Forecast] = {}
        self.stale_reasons: set[SchedulingClass] = set()
        self.reasons_at = -1
        self.all_reasons_stale = True
        self.otherwise: Rule | None = None
        self.kept: Reservation | None = None
        self.deferred: set[JobId] = set()
        self._fits: dict[tuple[int | None, int], Verdict | None] = {}
        self._most = _PRUNE_FROM

    def _prune(self, state: State) -> None:
        waiting = state.index.alike
        signatures = {like[0] for like in waiting}
        self.memos = {like: memo for like, memo in self.memos.items() if like in waiting}
        self.alone = {key: forecast for key, forecast in self.alone.items() if key[0] in signatures}
        for question in [question for question in self if question.signature not in signatures]:
            del self[question]
        self._most = 2 * (len(self) + len(self.memos)) + _PRUNE_FROM


def question_alone(job: Job, device: Device) -> Question:
    """What would this job need on this sort of device?"""
    return Question(job.signature, job.kind, device.type, sharing=device.sharing)


def question(job: Job, snapshot: DeviceSnapshot) -> Question:
    """What would this job need and cost on this device, beside who is there?"""
    device, beside = snapshot.device, tuple(sorted(a.kind for a in snapshot.residents))
    return Question(job.signature, job.kind, device.type, beside, device.sharing)
