"""What a policy works with in one pass: the waiting jobs, the devices, the forecasts, and what is left as jobs are placed.

The context reads the state and never changes it. A device that was given to a job is given to no other in the same pass, because
there is no forecast for the two together yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from gpuq.core.scheduling.admit import DeviceSnapshot, admit, numbers_of_no_starts, refusal
from gpuq.core.scheduling.bookings import BookedDevices
from gpuq.core.scheduling.cache import PassCache
from gpuq.core.scheduling.candidates import Candidates, Choice
from gpuq.core.scheduling.forecast_table import ForecastTable
from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.pauses import judge_in_pause
from gpuq.core.scheduling.quota_claims import QuotaClaims
from gpuq.core.scheduling.quotas import QuotaPass
from gpuq.core.scheduling.reservations import Reservations
from gpuq.core.scheduling.trials import MAY_BE_TRIED, Trials
from gpuq.core.state.actions import EndReservation, Reserve
from gpuq.core.state.attempt import AttemptId, served_s
from gpuq.core.state.device import Device, DeviceId
from gpuq.core.state.forecast import Forecast
from gpuq.core.state.index import PendingGroup, SchedulingClass, scheduling_class
from gpuq.core.state.job import Job, JobId
from gpuq.core.state.quota import Account, QuotaScope
from gpuq.core.state.reservation import Reservation
from gpuq.core.state.state import State
from gpuq.core.state.usage import UNUSED
from gpuq.core.state.verdict import Numbers, Rule, Verdict


class SchedulingContext:
    """One pass. Policies read it and may `defer` jobs; `decide` notes in it which proposals were granted."""

    def __init__(self, state: State, forecasts: ForecastTable, cache: PassCache, limits: Limits, now: float) -> None:
        self.state = state
        self.cache = cache
        self.limits = limits
        self.now = now
        cache.sync(state, forecasts, limits, now)
        classes = state.index.classes.items()
        self.ask_alone(next(iter(of.values())).head for one, of in classes if one not in cache.classes)
        self.deferred: dict[JobId, Verdict] = {}
        self.evicted: set[AttemptId] = set()
        self.paused: set[AttemptId] = set()
        self._device_index = cache.device_index
        self._given: dict[DeviceId, Job] = {}
        self._refused: set[SchedulingClass] = set()
        self._judgements = 0
        self._placed: set[JobId] = set()
        self._usage: dict[str, float] = {}
        self.trials = Trials(state, limits, now)
        self._booked = BookedDevices(cache, now)
        self._reservations = Reservations(state, cache, limits, now, self._given.keys(), self._booked)
        claims = QuotaClaims(state, cache, limits, now, self._reservations.by_job, self._devices_free_in_s)
        self.quotas = QuotaPass(state, now, claims)
        self.candidates = Candidates(cache, limits, self._reservations, self._booked, self._given.keys(), self._admits)
        cache.tried = None  # the candidates have taken it; from now on, what this pass has tried if it is cut short

    # --- waiting jobs ------------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> list[Job]:
        """The waiting jobs that quotas and limits of arrays let start, in the order in which they began to wait. `groups` is
        cheaper to go through."""
        waiting = self.state.index.waiting.values()
        return list(waiting) if self.quotas.unlimited else [job for job in waiting if self.quotas.refusal(job) is None]

    @property
    def groups(self) -> list[PendingGroup]:
        """The waiting jobs that quotas and limits of arrays let start, by scheduling class, priority, owner and project. Of a
        group, those that have waited longest come first. To be read only.

        Jobs of a group get the same verdicts: once one of them is refused, so is the rest of its group in this pass.
        """
        return self.quotas.open_groups()

    def over_quota(self, job: Job) -> bool:
        """Whether a quota, or the limit of its array, keeps the job from starting now. As devices are given in a pass, these are
        used up."""
        return self.quotas.refusal(job) is not None

    def _devices_free_in_s(self, job: Job) -> float | None:
        if self.quotas.refusal_but_for_devices(job) is not None:
            return None
        return self._reservations.devices_free_in_s(job)

    def refused(self, job: Job) -> bool:
        """Whether it is known that no device admits jobs of this class: one was tried in this pass, or in an earlier one and
        nothing has changed since. If not, the policy is to try `choices`."""
        of_class = scheduling_class(job)
        if of_class not in self._refused and self.candidates.none_is_new(self.cache.of_class(of_class)):
            self._refuse_class(job)
        return of_class in self._refused

    @property
    def is_spent(self) -> bool:
        """Whether the pass has started or judged so many jobs that it should try no other."""
        started, judged = len(self._placed), self._judgements
        return started >= self.limits.launches_per_pass or judged >= self.limits.judgements_per_pass

    def go_on_after(self, tried: Iterable[SchedulingClass]) -> None:
        """Cut the pass short. The next tries these classes on idle devices only, so that it gets to the others. A pass that gets
        to the end is followed by one that tries all again."""
        self.cache.tried = frozenset(tried)

    def defer(self, job: Job, verdict: Verdict) -> None:
        """Record the policy's own reason for not proposing this job now."""
        self.deferred[job.id] = verdict

    def reserve_later(self, after_s: Mapping[str, float]) -> None:
        """In this pass, no devices are reserved for overdue jobs of these owners that have waited less than so many seconds,
        because jobs of others come first."""
        self._reservations.after_s = after_s

    def placed(self, job: Job) -> bool:
        """Whether the job got its devices in this pass."""
        return job.id in self._placed

    def usage(self, owner: str) -> float:
        """Decayed device-seconds of an owner, with those of running attempts so far."""
        found = self._usage.get(owner)
        if found is None:
            user = Account(QuotaScope.USER, owner)
            running = (self.state.attempts[attempt] for attempt in self.state.index.running_of.get(user, ()))
            before = self.state.usage.get(owner, UNUSED).by(self.now)
            found = self._usage[owner] = before + sum(served_s(attempt, self.now) for attempt in running)
        return found

    # --- devices -----------------------------------------------------------------------------------------------------

    def snapshot(self, device: DeviceId) -> DeviceSnapshot:
        """A device as this pass sees it. Raises KeyError for a device that does not exist."""
        snapshot = self._device_index.snapshots[device]
        reservation = self._device_index.reserved.get(device)
        return snapshot if reservation is None else replace(snapshot, reserved_for=reservation.job)

    @property
    def snapshots(self) -> Iterator[DeviceSnapshot]:
        """All devices."""
        return (self.snapshot(device) for device in self.state.devices)

    @property
    def reservations(self) -> Mapping[JobId, Reservation]:
        """The reservations as they are now in this pass, by job."""
        return self._reservations.by_job

    @property
    def overdue_reservations(self) -> dict[JobId, Reservation]:
        """The reservations for jobs that waited beyond their patience."""
        return {reservation.job: reservation for reservation in self._reservations.overdue}

    def could_serve(self, job: Job, device: DeviceId) -> bool:
        """Whether the job could start on the device once its residents have gone, as far as is known now."""
        return self._reservations.could_serve(job, device)

    def overtaken_priority(self, devices: Iterable[DeviceId]) -> int | None:
        """The highest priority that waits, if one of these devices is reserved for a job that has waited too long."""
        reserved = {device for reservation in self._reservations.overdue for device in reservation.devices}
        if reserved.isdisjoint(devices):
            return None
        return max((group.priority for group in self.groups), default=None)

    def is_too_small(self, job: Job, device: DeviceId) -> bool:
        """Whether the job is known to need more memory than the device has, by more than on other devices."""
        return self.candidates.is_too_small(job, device)

    def given(self, device: DeviceId) -> bool:
        """Whether the device was given to a job in this pass."""
        return device in self._given

    def given_to(self, device: DeviceId) -> Job | None:
        """The job that was given the device in this pass. It is not among the device's residents yet."""
        return self._given.get(device)

    @property
    def gave_devices(self) -> bool:
        """Whether any device was given to a job in this pass."""
        return bool(self._given)

    @property
    def device_classes(self) -> Iterable[Device]:
        """One device of each class. Forecasts depend on nothing else about a device."""
        return self._device_index.device_classes.values()

    def classes_for(self, job: Job) -> Iterable[Device]:
        """One device of each class of those that the job may have."""
        return self.cache.classes_for(job)

    def no_device_open(self, job: Job) -> Verdict:
        """The verdict for a job that no single device refused: none of those that it may have is open at all."""
        index, taken = self._device_index, self.state.residents.keys() | self._given.keys()
        devices: Iterable[DeviceId] = index.snapshots
        count, unusable, busy = len(index.snapshots), index.unusable, len(taken)
        least = job.declared_memory or 0
        # All devices are gone through only where some are of no use to the job.
        if job.constraints is not None or any(one.total_memory < least for one in index.models.values()):
            allowed = index.snapshots if job.constraints is None else self.cache.allowed(job.constraints)
            # Those that are too small wait for nothing: what the job waits for is one of the others.
            devices = [one for one in allowed if index.snapshots[one].device.total_memory >= least]
            count, busy = len(devices), sum(device in taken for device in devices)
            unusable = Counter(rule for device in devices if (rule := index.snapshots[device].unusable) is not None)
        if not count:
            return Verdict(False, Rule.NO_DEVICES, None, (("devices", 0),))
        if unusable.total() == count:
            return self._none_usable(count, unusable, map(index.snapshots.__getitem__, devices))
        numbers: Numbers = (("devices", count), ("busy_devices", busy))
        if unusable.total():
            numbers = (*numbers, ("unusable_devices", unusable.total()))
        return Verdict(False, Rule.RESOURCES, None, numbers)

    def _none_usable(self, count: int, unusable: Counter[Rule], snapshots: Iterable[DeviceSnapshot]) -> Verdict:
        """The verdict where none of these devices admits any job: by the rule that an operator has the most to do about."""
        if unusable[Rule.UNWELL]:
            return Verdict(False, Rule.UNWELL, None, (("devices", count), ("unwell_devices", unusable[Rule.UNWELL])))
        if unusable[Rule.NO_STARTS]:
            first = next(snapshot for snapshot in snapshots if snapshot.unusable is Rule.NO_STARTS)
            return Verdict(False, Rule.NO_STARTS, None, numbers_of_no_starts(first))
        if unusable[Rule.STALE_READING]:
            return Verdict(False, Rule.STALE_READING, None, (("stale_after_s", self.limits.stale_after_s),))
        return Verdict(False, Rule.DRAINED, None, (("devices", count),))

    # --- forecasts ---------------------------------------------------------------------------------------------------

    def ask_alone(self, jobs: Iterable[Job]) -> None:
        """Have the forecasts for these jobs alone answered at once, as for waiting jobs, before they are read one by one."""
        self.cache.ask_alone(jobs)

    def ask_beside(self, jobs: Iterable[Job], snapshots: Iterable[DeviceSnapshot]) -> None:
        """Have the forecasts for these jobs on each of these devices answered at once, before they are read one by one."""
        self.cache.ask_beside(jobs, tuple(snapshots))

    def forecast(self, job: Job, snapshot: DeviceSnapshot) -> Forecast:
        """The forecast for a job on a device beside its residents."""
        return self.cache.forecast(job, snapshot)

    def forecast_alone(self, job: Job, device: Device) -> Forecast:
        """The forecast for a job alone on a device of this class."""
        return self.cache.forecast_alone(job, device)

    # --- proposals ---------------------------------------------------------------------------------------------------

    def choices(self, job: Job) -> Iterator[Choice]:
        """What admits the job, best first: each choice is as many devices as it needs, of as many hosts, idle ones before shared.

        A job on one device gets at most `candidates_per_job` idle choices and as many shared ones.
        """
        found = False
        for choice in self.candidates.choices(job):
            found = True
            yield choice
        if not found:
            self._refuse_class(job)

    def shareable_for(self, job: Job) -> Iterator[DeviceSnapshot]:
        """The devices with residents that have the memory, and by utilisation the time, for a job on one device; the least used
        first. Admission may still refuse it."""
        return self.candidates.shareable(job)

    def judge(self, job: Job, device: DeviceId) -> Verdict:
        """May this job have this device?"""
        if self._reservations.is_open_to(job, device):
            return self._judge_unreserved(job, device)
        snapshot = self.snapshot(device)
        return admit(job, self.forecast_alone(job, snapshot.device), snapshot, self.limits)

    def refusal_as_reserved(self, job: Job) -> Verdict | None:
        """The refusal of a device that would admit the job if it were not reserved for another; None where there is none."""
        found = self.candidates.reserved(job, lambda device: self._judge_unreserved(job, device).admitted)
        return None if found is None else self.judge(job, found.device.id)

    def _judge_unreserved(self, job: Job, device: DeviceId) -> Verdict:
        """May this job have this device, whichever job it is reserved for?"""
        snapshot = self._device_index.snapshots[device]
        alone = self.forecast_alone(job, snapshot.device)
        verdict = self._refusal_alone(job, alone, snapshot)
        verdict = verdict or admit(job, self.forecast(job, snapshot), snapshot, self.limits)
        self.cache.of(job).judged[device] = self._device_index.revision, verdict.admitted
        # Last, because it depends on the time: what refuses the job by itself stays its reason.
        booked = self._booked.refusal(job, device) if verdict.admitted else None
        return booked or verdict

    def judge_in_pause(self, job: Job, device: DeviceId) -> Verdict:
        """May this job have this device while its residents stand still? An idle device is judged as ever."""
        snapshot = self._device_index.snapshots[device]
        if not snapshot.residents or not self._reservations.is_open_to(job, device):
            return self.judge(job, device)
        alone = self.forecast_alone(job, snapshot.device)
        verdict = judge_in_pause(self.state, job, alone, snapshot, self.limits, self.now)
        if verdict.admitted:  # else the pair need not be asked about
            verdict = judge_in_pause(self.state, job, self.forecast(job, snapshot), snapshot, self.limits, self.now)
        booked = self._booked.refusal(job, device) if verdict.admitted else None
        return booked or verdict

    def judge_trial(self, job: Job, device: DeviceId) -> Verdict:
        """May this job have this device, if need be to try it beside its residents?"""
        snapshot = self._device_index.snapshots[device]
        verdict = self.judge(job, device)
        if verdict.rule not in MAY_BE_TRIED:
            return verdict
        trial = self.trials.judge(job, self.forecast(job, snapshot), snapshot)
        booked = self._booked.refusal(job, device) if trial.admitted else None
        return booked or trial

    def _refusal_alone(self, job: Job, alone: Forecast, snapshot: DeviceSnapshot) -> Verdict | None:
        """The verdict on a device with residents that refuses the job whatever the pair costs, so that this need not be asked."""
        refused = refusal(job, alone, snapshot, self.limits) if snapshot.residents else None
        pair_may_allow = alone.pairs_known or self.limits.trials
        return None if refused is not None and refused.rule is Rule.PREDICTED_LOAD and pair_may_allow else refused

    def _admits(self, job: Job, device: DeviceId) -> bool:
        """Whether a device that is open to the job admits it: the answer of `judge` without its numbers, which cost time."""
        snapshot = self._device_index.snapshots[device]
        self._judgements += bool(snapshot.residents)
        return refusal(job, self.forecast(job, snapshot), snapshot, self.limits) is None

    def note_refusal(self, job: Job) -> None:
        """A proposal for this job was refused. Where no other device admits it either, its class is not tried any more."""
        next(self.choices(job), None)

    def _refuse_class(self, job: Job) -> None:
        """No device admits this job, which the policy would start. Its class is not tried any more in this pass."""
        self._refused.add(scheduling_class(job))
        # A policy may hand in jobs that do not wait, and copies that it changed.
        waiting = self.state.index.waiting.get(job.id)
        if waiting is not None and job.id not in self._placed:
            self._reservations.note_not_started(waiting)

    def place_job(self, job: Job, devices: Iterable[DeviceId]) -> None:
        """The job got these devices."""
        given = tuple(devices)
        self._placed.add(job.id)
        self._given.update(dict.fromkeys(given, job))
        self._reservations.end_by_launch(job.id)
        self.quotas.give(job, len(given))

    def evict(self, attempt: AttemptId, job: Job, devices: tuple[DeviceId, ...]) -> None:
        """The attempt is stopped for this job, for which `devices` are reserved if there are any."""
        self.evicted.add(attempt)
        if devices:
            self._reservations.reserve_for_preemption(job, devices)

    def update_reservations(self) -> Iterator[Reserve | EndReservation]:
        """After the last proposal: the actions that change the state's reservations into those of this pass."""
        return self._reservations.update(self._placed)

    def end_pass(self) -> None:
        """Count the devices that were given as changed.

        Jobs tried after a device was given were not judged on it. They have to be in the next pass, even if the new resident has
        ended by then and the device is as it was.
        """
        if self._given:
            self._device_index.mark_changed(self._given)
