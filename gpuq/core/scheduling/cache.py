"""Conclusions of earlier passes, so that the time of a pass depends on what has changed, not on the size of the queue.

Deciding which of 10,000 waiting jobs may join which of 1,000 devices takes seconds when every pair is judged; most of these
judgements were made in the pass before and still hold. The shell (daemon or simulator) keeps one `PassCache` and hands it to
`needed_forecasts` and `decide`. It holds nothing that the state and the forecasts do not determine: with a new cache, or with an
old one, the same actions are decided, which tests/core/scheduling/test_cache.py checks. So it may be dropped at any time, and it
must be dropped when the actions of a pass were not applied.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from gpuq.core.scheduling.admit import DeviceSnapshot, fits_ever
from gpuq.core.scheduling.device_index import DeviceIndex
from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.constraints import DeviceConstraints
from gpuq.core.state.device import Device, DeviceId
from gpuq.core.state.forecast import UNKNOWN, Forecast, Forecasts, Question
from gpuq.core.state.index import DeviceClass, GroupKey, SchedulingClass, scheduling_class
from gpuq.core.state.job import Job, JobId, KindId
from gpuq.core.state.state import State
from gpuq.core.state.verdict import Rule, Verdict

# Conclusions about classes without waiting jobs are dropped when there are this many, or twice as many as after the last time.
_PRUNE_FROM = 1000

# The part of a pending reason that is compared: a job is given a new one when its rule or its device changes, not its numbers.
ReasonKey = tuple[Rule, DeviceId | None]


@dataclass(frozen=True, slots=True)
class SharingNeeds:
    """What a job needs to share a device of one class: bytes of memory, and residents that use at most `most_used_pct`."""

    most_used_pct: float
    memory: int


@dataclass(slots=True)
class ClassConclusions:
    """What is known about the waiting jobs of one scheduling class.

    `judged` has, for each device, the revision at which it was judged and whether it admits these jobs; that holds until the
    device changes. `exhausted_at` is the revision at which no device was left that admits them; with `saw_all` every open device
    was looked at then, so that later only those that changed since need a look. `needs` is None until the forecasts of all device
    classes are known. `reasons` has at least the pending reasons that the state holds for these jobs.
    """

    judged: dict[DeviceId, tuple[int, bool]] = field(default_factory=dict)
    exhausted_at: int | None = None
    saw_all: bool = False
    needs: dict[DeviceClass, SharingNeeds] | None = None
    reasons: set[ReasonKey] = field(default_factory=set)


class PassCache:
    """Conclusions of earlier passes about one state, under the same limits and from the same forecasts.

    `classes` holds the conclusions by scheduling class. `device_index` is the devices as passes see them. For pending reasons:
    `reasons_checked_at` is the revision up to which all of them were checked (None: none were), `unsettled` are classes whose
    reasons rest on a forecast that has not been asked for yet, `deferred` are the jobs that the policy itself deferred in the
    last pass, and `over_quota` the groups that a quota kept from starting, each with the reason of its jobs that changes first.
    """

    def __init__(self) -> None:
        self._state: State | None = None
        self._limits = Limits()
        self._hosts_forgotten = 0
        self._forecasts: Forecasts = {}
        self._reset()

    def sync(self, state: State, forecasts: Forecasts, limits: Limits, now: float) -> None:
        """Drop the conclusions that do not hold any more.

        `forecasts` is compared by identity: the mapping may grow between passes, and a shell that takes forecasts out or replaces
        them passes another mapping.
        """
        forgotten = state.index.hosts_forgotten
        if self._state is not state or self._limits != limits or self._hosts_forgotten != forgotten:
            self._reset()
            self._state, self._limits, self._hosts_forgotten = state, limits, forgotten
        elif self._forecasts is not forecasts:
            self._forget_classes()
        self._forecasts = forecasts
        device_changes = self.device_index.device_changes
        self.device_index.sync(state, limits, now)
        if self.device_index.device_changes != device_changes:
            # A device is new, or has another type or another size: what fits somewhere may have changed for every class.
            self._never_fits.clear()
            self._allowed.clear()
            self._forget_classes()
        if len(self.classes) + len(self._found) > self._prune_at:
            self._prune(state)

    def of_class(self, wanted: SchedulingClass) -> ClassConclusions:
        """The conclusions about a scheduling class, to be read and added to."""
        return self.classes[wanted]

    def of(self, job: Job) -> ClassConclusions:
        """The conclusions about the scheduling class of a job."""
        return self.of_class(scheduling_class(job))

    # --- forecasts -------------------------------------------------------------------------------------------------

    def forecast(self, job: Job, snapshot: DeviceSnapshot) -> Forecast:
        """The forecast for a job on a device beside its residents; that for the job alone where this pair was not asked about."""
        return self.look_up(job, snapshot)[0]

    def look_up(self, job: Job, snapshot: DeviceSnapshot) -> tuple[Forecast, bool]:
        """Both `forecast` and `is_settled`."""
        alone = self._find(job, snapshot.device, ())
        together = self._find(job, snapshot.device, snapshot.kinds) if snapshot.residents else alone
        return together or alone or UNKNOWN, alone is not None and together is not None

    def forecast_alone(self, job: Job, device: Device) -> Forecast:
        """The forecast for a job alone on a device of this class; UNKNOWN where it was not asked for."""
        return self._find(job, device, ()) or UNKNOWN

    def is_asked(self, job: Job, device: Device) -> bool:
        """Whether the forecast for a job alone on a device of this class is there."""
        return self._find(job, device, ()) is not None

    def is_settled(self, job: Job, snapshot: DeviceSnapshot) -> bool:
        """Whether all forecasts that a verdict on this job and device rests on are there: more forecasts cannot change it."""
        return self.look_up(job, snapshot)[1]

    def _find(self, job: Job, device: Device, beside: tuple[KindId, ...]) -> Forecast | None:
        # Kept by signature, device class and residents, because building and hashing a `Question` for each look-up is slow.
        key = job.signature, device.type, device.sharing, beside
        found = self._found.get(key)
        if found is None:
            found = self._forecasts.get(Question(job.signature, job.kind, device.type, beside, device.sharing))
            if found is not None:
                self._found[key] = found
        return found

    def never_fits(self, job: Job) -> Verdict | None:
        """Why no host could ever run this job; None if one could."""
        key = (job.declared_memory, job.device_count, job.host_count, job.constraints)
        if key not in self._never_fits:
            devices = list(self._state.devices.values()) if self._state else []
            memory, count, hosts, constraints = key
            self._never_fits[key] = fits_ever(memory, count, devices, hosts, constraints)
        return self._never_fits[key]

    def allowed(self, constraints: DeviceConstraints) -> frozenset[DeviceId]:
        """The devices that meet these constraints."""
        if constraints not in self._allowed:
            devices = self._state.devices.values() if self._state else ()
            self._allowed[constraints] = frozenset(one.id for one in devices if constraints.unmet(one) is None)
        return self._allowed[constraints]

    # --- dropping --------------------------------------------------------------------------------------------------

    def _reset(self) -> None:
        self.device_index = DeviceIndex()
        self._never_fits: dict[tuple[int | None, int, int, DeviceConstraints | None], Verdict | None] = {}
        self._allowed: dict[DeviceConstraints, frozenset[DeviceId]] = {}
        self._forget_classes()

    def _forget_classes(self) -> None:
        self.classes: defaultdict[SchedulingClass, ClassConclusions] = defaultdict(ClassConclusions)
        self._found: dict[tuple[str, str, str | None, tuple[KindId, ...]], Forecast] = {}
        self.reasons_checked_at: int | None = None
        self.unsettled: set[SchedulingClass] = set()
        self.deferred: set[JobId] = set()
        self.over_quota: dict[GroupKey, Verdict] = {}
        self._prune_at = _PRUNE_FROM

    def _prune(self, state: State) -> None:
        waiting = state.index.classes
        signatures = {signature for signature, *_ in waiting}
        constraints = {constraints for *_, constraints in waiting}
        self._allowed = {one: devices for one, devices in self._allowed.items() if one in constraints}
        for gone in self.classes.keys() - waiting.keys():
            del self.classes[gone]
        self._found = {key: forecast for key, forecast in self._found.items() if key[0] in signatures}
        self._prune_at = 2 * (len(self.classes) + len(self._found)) + _PRUNE_FROM


def question_alone(job: Job, device: Device) -> Question:
    """The question what this job needs alone on a device of this class."""
    return Question(job.signature, job.kind, device.type, sharing=device.sharing)


def question(job: Job, snapshot: DeviceSnapshot) -> Question:
    """The question what this job needs, and what sharing costs, on this device beside its residents."""
    device = snapshot.device
    return Question(job.signature, job.kind, device.type, snapshot.kinds, device.sharing)
