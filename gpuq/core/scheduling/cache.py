"""Conclusions of earlier passes, so that the time of a pass depends on what has changed, not on the size of the queue.

Deciding which of 10,000 waiting jobs may join which of 1,000 devices takes seconds when every pair is judged; most of these
judgements were made in the pass before and still hold. The shell (daemon or simulator) keeps one `PassCache` and hands it to
`decide`. It holds nothing that the state and the forecasts do not determine: with a new cache, or with an old one, the same
actions are decided, which tests/core/scheduling/test_cache.py checks. So it may be dropped at any time, and it must be dropped
when the actions of a pass were not applied. The exception is `tried`, by which a pass goes on where the one before was cut short;
without it the pass begins with the first job again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from gpuq.core.scheduling.admit import DeviceSnapshot, fits_ever, needed_memory, tolerated_memory
from gpuq.core.scheduling.device_index import DeviceIndex, DeviceModel
from gpuq.core.scheduling.forecast_table import ForecastTable
from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.constraints import DeviceConstraints
from gpuq.core.state.device import Device, DeviceId, HostId
from gpuq.core.state.forecast import Forecast, Question
from gpuq.core.state.index import DeviceClass, GroupKey, SchedulingClass, device_class, scheduling_class
from gpuq.core.state.job import Job, JobId
from gpuq.core.state.state import State
from gpuq.core.state.verdict import Rule, Verdict

# Conclusions that no waiting job needs are dropped when there are this many, or twice as many as after the last time.
_PRUNE_FROM = 1000

# The part of a pending reason that is compared: a job is given a new one when its rule, its device, the job that the device is
# reserved for or the booking changes, not its numbers.
ReasonKey = tuple[Rule, DeviceId | None, object]

# What decides whether a job fits anywhere: the memory that it declares, its devices, its hosts, its constraints.
_Demand = tuple[int | None, int, int, DeviceConstraints | None]


@dataclass(frozen=True, slots=True)
class SharingNeeds:
    """What a job needs to share a device of one class: bytes of memory, and residents that use at most `most_used_pct`."""

    most_used_pct: float
    memory: int


@dataclass(slots=True)
class ClassConclusions:
    """What is known about the waiting jobs of one scheduling class.

    `judged` has, for each device, the revision at which it was judged and whether it admits these jobs; that holds until the
    device changes. `exhausted_at` is the revision at which no open device was left that admits them, so that later only those
    that changed since need a look. `needs`, `tolerated`, `lacking` and `duration` are None until they were asked for; a duration
    that is not known is (). `reasons` has at least the pending reasons that the state holds for these jobs.
    """

    judged: dict[DeviceId, tuple[int, bool]] = field(default_factory=dict)
    exhausted_at: int | None = None
    needs: dict[DeviceClass, SharingNeeds] | None = None
    tolerated: dict[DeviceModel, int] | None = None
    lacking: dict[DeviceModel, int] | None = None
    duration: tuple[float, float] | tuple[()] | None = None
    reasons: set[ReasonKey] = field(default_factory=set)


class PassCache:
    """Conclusions of earlier passes about one state, under the same limits and from the same forecasts.

    `classes` holds the conclusions by scheduling class. `device_index` is the devices as passes see them. For pending reasons:
    `reasons_checked_at` is the revision up to which all of them were checked (None: none were), `unsettled` are classes whose
    reasons may change as time passes, `unchecked` those that the last pass did not come to, `deferred` are the jobs that the
    policy itself deferred in the last pass, and `over_quota` the groups that a quota kept from starting, each with the reason of
    its jobs that changes first.
    `tried` is None, or the last pass was cut short, and these are the classes that the next need not try beside residents again.
    """

    def __init__(self) -> None:
        self._state: State | None = None
        self._limits = Limits()
        self._hosts_forgotten = 0
        self._forecasts: ForecastTable | None = None
        self._known: dict[Question, Forecast] = {}
        self._reset()

    def sync(self, state: State, forecasts: ForecastTable, limits: Limits, now: float) -> None:
        """Drop the conclusions that do not hold any more. Forecasts are compared by the identity of the mapping."""
        forecasts.prune(state)
        forgotten = state.index.hosts_forgotten
        if self._state is not state or self._limits != limits or self._hosts_forgotten != forgotten:
            self._reset()
            self._state, self._limits, self._hosts_forgotten = state, limits, forgotten
        elif self._known is not forecasts.known:
            self._forget_classes()
        self._forecasts, self._known = forecasts, forecasts.known
        device_changes = self.device_index.device_changes
        self.device_index.sync(state, limits, now)
        if self.device_index.device_changes != device_changes:
            # A device is new, or has another type or another size: what fits somewhere may have changed for every class.
            self._never_fits.clear()
            self._allowed.clear()
            self._classes.clear()
            self._forget_classes()
        if self._entries > self._prune_at:
            self._prune(state)

    def of_class(self, wanted: SchedulingClass) -> ClassConclusions:
        """The conclusions about a scheduling class, to be read and added to."""
        return self.classes[wanted]

    def of(self, job: Job) -> ClassConclusions:
        """The conclusions about the scheduling class of a job."""
        return self.of_class(scheduling_class(job))

    def was_put_off(self, of_class: SchedulingClass) -> bool:
        """Whether the pass was cut short before it tried jobs of this class."""
        return self.tried is not None and of_class not in self.tried

    # --- forecasts -------------------------------------------------------------------------------------------------

    def ask_alone(self, jobs: Iterable[Job]) -> None:
        """Have the forecasts for these jobs alone on each class of devices answered."""
        devices = self.device_index.device_classes.values()
        self._ask(question_alone(job, device) for job in jobs for device in devices)

    def ask_beside(self, jobs: Iterable[Job], snapshots: Sequence[DeviceSnapshot]) -> None:
        """Have the forecasts for these jobs beside the residents of these devices answered: many at once are far cheaper."""
        self._ask(question(job, snapshot) for job in jobs for snapshot in snapshots if snapshot.residents)

    def forecast(self, job: Job, snapshot: DeviceSnapshot) -> Forecast:
        """The forecast for a job on a device beside its residents."""
        return self._answer(question(job, snapshot))

    def forecast_alone(self, job: Job, device: Device) -> Forecast:
        """The forecast for a job alone on a device of this class."""
        return self._answer(question_alone(job, device))

    def _answer(self, asked: Question) -> Forecast:
        found = self._known.get(asked)
        if found is None:
            self._ask((asked,))
            found = self._known[asked]
        return found

    def _ask(self, questions: Iterable[Question]) -> None:
        assert self._forecasts is not None, "the cache belongs to no pass yet"
        self._forecasts.ask(questions)

    def tolerated(self, job: Job) -> dict[DeviceModel, int]:
        """Bytes that foreign processes may use on a device of each model where this job starts alone."""
        conclusions = self.of(job)
        if conclusions.tolerated is None:
            conclusions.tolerated = {
                model: tolerated_memory(job, self.forecast_alone(job, device), device, self._limits)
                for model, device in self.device_index.models.items()
            }
        return conclusions.tolerated

    def lacking(self, job: Job) -> dict[DeviceModel, int]:
        """The models of device that are too small for what this job is known to need: by how many bytes more than the best model.
        Models that are as good as the best one are left out.

        Where its need on a model is not known, it counts as the least that is known on other models of the backend.
        """
        conclusions = self.of(job)
        if conclusions.lacking is None:
            models = self.device_index.models
            needs = {model: needed_memory(job, self.forecast_alone(job, device)) for model, device in models.items()}
            least: dict[str, int] = {}
            for (_, _, backend), need in needs.items():
                if need is not None:
                    least[backend] = min(need, least.get(backend, need))
            lacks = {
                (of_class, total, backend): max(0, (least.get(backend, 0) if need is None else need) - total)
                for (of_class, total, backend), need in needs.items()
            }
            fewest = min(lacks.values(), default=0)
            conclusions.lacking = {model: lack - fewest for model, lack in lacks.items() if lack > fewest}
        return conclusions.lacking

    def duration(self, job: Job) -> tuple[float, float] | None:
        """(median, 90th percentile) of the seconds from start to end, each the mean over the classes of devices that the job may
        have; None if unknown."""
        conclusions = self.of(job)
        if conclusions.duration is None:
            forecasts = [self.forecast_alone(job, device) for device in self.classes_for(job)]
            percentiles = [(f.duration_p50_s, f.duration_p90_s) for f in forecasts]
            known = [(p50, p50 if p90 is None else p90) for p50, p90 in percentiles if p50 is not None]
            p50s, p90s = zip(*known, strict=True) if known else ((), ())
            conclusions.duration = (fmean(p50s), fmean(p90s)) if known else ()
        return conclusions.duration or None

    def never_fits(self, job: Job) -> Verdict | None:
        """Why no host could ever run this job; None if one could."""
        key = _demand_of(job)
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

    def classes_for(self, job: Job, host: HostId | None = None) -> Collection[Device]:
        """One device of each class of those that the job may have, of which one is on `host` if it runs on one host. Forecasts
        depend on nothing else about a device."""
        within = host if job.host_count == 1 else None
        if job.constraints is None and within is None:
            return self.device_index.device_classes.values()
        key = job.constraints, within
        if key not in self._classes:
            devices = self._state.devices.values() if self._state else ()
            allowed = None if job.constraints is None else self.allowed(job.constraints)
            mine = [one for one in devices if (allowed is None or one.id in allowed) and within in (None, one.host)]
            self._classes[key] = tuple({device_class(device): device for device in mine}.values())
        return self._classes[key]

    # --- dropping --------------------------------------------------------------------------------------------------

    def _reset(self) -> None:
        self.device_index = DeviceIndex()
        self.tried: frozenset[SchedulingClass] | None = None
        self._never_fits: dict[_Demand, Verdict | None] = {}
        self._allowed: dict[DeviceConstraints, frozenset[DeviceId]] = {}
        self._classes: dict[tuple[DeviceConstraints | None, HostId | None], tuple[Device, ...]] = {}
        self._prune_at = _PRUNE_FROM
        self._forget_classes()

    def _forget_classes(self) -> None:
        self.classes: defaultdict[SchedulingClass, ClassConclusions] = defaultdict(ClassConclusions)
        self.reasons_checked_at: int | None = None
        self.unsettled: set[SchedulingClass] = set()
        self.unchecked: set[SchedulingClass] = set()
        self.deferred: set[JobId] = set()
        self.over_quota: dict[GroupKey, Verdict] = {}

    @property
    def _entries(self) -> int:
        return len(self.classes) + len(self._never_fits) + len(self._allowed) + len(self._classes)

    def _prune(self, state: State) -> None:
        waiting = state.index.classes
        heads = [next(iter(groups.values())).head for groups in waiting.values()]
        demands, constraints = set(map(_demand_of, heads)), {job.constraints for job in heads}
        self._never_fits = {key: verdict for key, verdict in self._never_fits.items() if key in demands}
        self._allowed = {key: devices for key, devices in self._allowed.items() if key in constraints}
        self._classes = {key: devices for key, devices in self._classes.items() if key[0] in constraints}
        for gone in self.classes.keys() - waiting.keys():
            del self.classes[gone]
        self._prune_at = 2 * self._entries + _PRUNE_FROM


def _demand_of(job: Job) -> _Demand:
    return job.declared_memory, job.device_count, job.host_count, job.constraints


def question_alone(job: Job, device: Device) -> Question:
    """The question what this job needs alone on a device of this class."""
    return Question(job.signature, job.kind, device.type, sharing=device.sharing)


def question(job: Job, snapshot: DeviceSnapshot) -> Question:
    """The question what this job needs, and what sharing costs, on this device beside its residents."""
    device = snapshot.device
    return Question(job.signature, job.kind, device.type, snapshot.kinds, device.sharing)
