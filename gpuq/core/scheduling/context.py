"""One pass's picture of the queue and the devices: what is still open, on top of what earlier passes found out.

Arrives: the state, which is only read, and what is known. The board changes as proposals are admitted, and only ever loses room.
What was refused stays refused until something about the device, or what is known of the job, is another: so a pass looks at
what changed, and the first one at everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from gpuq.core.scheduling.admit import DeviceSnapshot, admit
from gpuq.core.scheduling.cache import ClassMemo, PassCache, question
from gpuq.core.scheduling.candidates import Candidates
from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.reservations import Reservations
from gpuq.core.state.attempt import AttemptId, served_s
from gpuq.core.state.device import Device, DeviceId
from gpuq.core.state.forecast import Answers, Forecast
from gpuq.core.state.index import PendingGroup, SchedulingClass, scheduling_class
from gpuq.core.state.job import Job, JobId
from gpuq.core.state.state import State
from gpuq.core.state.usage import UNUSED
from gpuq.core.state.verdict import Numbers, Rule, Verdict


class SchedulingContext:
    """What a policy sees, and what `decide` updates."""

    def __init__(self, state: State, answers: Answers, limits: Limits, now: float) -> None:
        self.state = state
        self.cache = answers if isinstance(answers, PassCache) else PassCache(dict(answers))
        self.limits = limits
        self.now = now
        self.cache.sync(state, limits, now)
        self._device_index = self.cache.device_index
        self._given: set[DeviceId] = set()
        self._refused: dict[SchedulingClass, Verdict] = {}
        self._placed: set[JobId] = set()
        self.deferred: dict[JobId, Verdict] = {}
        self._usage: dict[str, float] = {}
        self.evicted: set[AttemptId] = set()
        self._keeping = Reservations(state, self.cache, limits, now, self._given)
        self._options = Candidates(self.cache, limits, self._keeping, self._given)

    # --- who waits -------------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> list[Job]:
        """All jobs that wait, in the order in which they came to; `groups` is cheaper to go through."""
        return list(self.state.index.waiting.values())

    @property
    def groups(self) -> list[PendingGroup]:
        """The waiting jobs by likeness, priority and owner, in order of submission within a group. To be read only.

        Jobs of a group get the same verdicts: once one of them is refused, so is the rest of its group in this pass.
        """
        return list(self.state.index.groups.values())

    def refused(self, job: Job) -> Verdict | None:
        """The verdict that jobs like this one already got in this pass, or in an earlier one if nothing came up since."""
        like = scheduling_class(job)
        found = self._refused.get(like)
        if found is not None or self._keeping.is_for(job) or self._keeping.is_overdue(job):
            return found
        memo = self.cache.memos.get(like)
        if memo is None or memo.exhausted_at is None or memo.exhausted_at < self._device_index.opened:
            return None
        if memo.reason is None and self.state.residents and job.device_count == 1:
            return None  # a busy place has numbers to say why
        return memo.reason or self.nothing_open()

    def defer(self, job: Job, verdict: Verdict) -> None:
        """The policy's own reason why it does not propose this very job now."""
        self.deferred[job.id] = verdict

    def placed(self, job: Job) -> bool:
        """Whether the job got its devices in this pass."""
        return job.id in self._placed

    def usage(self, owner: str) -> float:
        """Decayed device-seconds of an owner, with what the attempts that run have had so far."""
        found = self._usage.get(owner)
        if found is None:
            running = (self.state.attempts[attempt] for attempt in self.state.index.running_of.get(owner, ()))
            before = self.state.usage.get(owner, UNUSED).by(self.now)
            found = self._usage[owner] = before + sum(served_s(attempt, self.now) for attempt in running)
        return found

    # --- what there is ---------------------------------------------------------------------------------------------

    def snapshot(self, device: DeviceId) -> DeviceSnapshot:
        """A device as this pass sees it now. Raises KeyError for one that there is not."""
        snapshot = self._device_index.all[device]
        return replace(snapshot, reserved=True) if device in self._keeping.devices else snapshot

    @property
    def snapshots(self) -> Iterator[DeviceSnapshot]:
        """All devices."""
        return (self.snapshot(device) for device in self._device_index.all)

    def given(self, device: DeviceId) -> bool:
        """Whether the device got a job in this pass."""
        return device in self._given

    @property
    def device_classes(self) -> Iterable[Device]:
        """One device of each sort: forecasts differ by that alone."""
        return self._device_index.device_classes.values()

    @property
    def shares(self) -> bool:
        """Whether any busy device is open to a newcomer."""
        return bool(self._device_index.shareable)

    def nothing_open(self) -> Verdict:
        """Why a job waits that was refused nothing in particular."""
        count = len(self._device_index.all)
        if not count:
            return Verdict(False, Rule.NO_DEVICES, None, (("devices", 0),))
        if self._device_index.unread == count:
            return Verdict(False, Rule.STALE_READING, None, (("stale_after_s", self.limits.stale_after_s),))
        if self._device_index.unwell and self._device_index.unread + self._device_index.unwell == count:
            return Verdict(
                False, Rule.UNWELL, None, (("devices", count), ("unwell_devices", self._device_index.unwell))
            )
        numbers: Numbers = (("devices", count), ("busy_devices", len(self.state.residents)))
        unusable = self._device_index.unread + self._device_index.unwell
        return Verdict(False, Rule.RESOURCES, None, (*numbers, ("unusable_devices", unusable)) if unusable else numbers)

    # --- what is foretold ------------------------------------------------------------------------------------------

    def forecast(self, job: Job, snapshot: DeviceSnapshot) -> Forecast:
        """The answer to this job on this device beside who is there; the answer alone where no pair was asked about."""
        return self.cache.forecast(job, snapshot)

    def forecast_alone(self, job: Job, device: Device) -> Forecast:
        """The answer to this job with a device of this sort to itself."""
        return self.cache.forecast_alone(job, device)

    # --- what may be tried -----------------------------------------------------------------------------------------

    def choices(self, job: Job) -> Iterator[tuple[DeviceSnapshot, ...]]:
        """Places worth a verdict, best first, each choice as many devices of one host as the job needs: idle ones, then shared
        ones, at most `candidates_per_job` of each. If there is none, a busy one, so that the refusal has its numbers.

        Where a place was refused before to jobs like this one, and nothing about it changed, it is left out.
        """
        found = False
        for choice in self._options.of(job):
            found = True
            yield choice
        if found:
            return
        self._keeping.want(job)
        if job.device_count == 1 and self.cache.memo(scheduling_class(job)).reason is None:
            busy = self._options.busy(self.state.residents)
            yield from [] if busy is None else [(busy,)]

    def shared_options(self, job: Job) -> list[DeviceSnapshot]:
        """Busy places where the job fits by memory, the least loaded first; by utilisation too where no pair is known."""
        return self._options.shared(job)

    # --- what was disposed -----------------------------------------------------------------------------------------

    def judge(self, job: Job, device: DeviceId) -> Verdict:
        """May this job have this device? A no is remembered until the device changes or something is learned."""
        snapshot = self._device_index.all[device] if self._keeping.is_for(job) else self.snapshot(device)
        verdict = admit(job, self.forecast(job, snapshot), snapshot, self.limits)
        settled = not snapshot.reserved and (not snapshot.residents or question(job, snapshot) in self.cache)
        if not verdict.admitted and settled:
            self.cache.memo(scheduling_class(job)).refusals[device] = self._device_index.turn
        return verdict

    def refuse(self, job: Job, verdict: Verdict) -> None:
        """Remember why jobs like this one wait; the first reason stays, it is about the best place."""
        like = scheduling_class(job)
        self._refused.setdefault(like, verdict)
        memo = self.cache.memo(like)
        if memo.reason is None or self._is_outdated(memo):
            memo.reason, memo.reason_at = verdict, self._device_index.turn
            self.cache.stale_reasons.add(like)
        self._keeping.want(job)

    def renew_reasons(self) -> None:
        """Where the device that a reason speaks of has changed since, ask it again: what people read is true."""
        if self.cache.reasons_at == self._device_index.turn:
            return
        self.cache.reasons_at = self._device_index.turn
        for like, groups in self.state.index.alike.items():
            memo = self.cache.memos.get(like)
            if memo and memo.reason and memo.reason.device and self._is_outdated(memo):
                verdict = self.judge(next(iter(groups.values())).head, memo.reason.device)
                if verdict.admitted or verdict.rule is not memo.reason.rule:
                    self.cache.stale_reasons.add(like)
                memo.reason, memo.reason_at = None if verdict.admitted else verdict, self._device_index.turn

    def _is_outdated(self, memo: ClassMemo) -> bool:
        device = memo.reason.device if memo.reason else None
        return device is not None and self._device_index.changed.get(device, 0) > memo.reason_at

    def place_job(self, job: Job, devices: Iterable[DeviceId]) -> None:
        """The job got these devices: nobody else gets them in this pass, since the answers no longer speak of them."""
        self._placed.add(job.id)
        self._given.update(devices)

    def end(self) -> None:
        """The policy has proposed all it wants: nothing is kept for a job that it would not start."""
        self._keeping.end()
