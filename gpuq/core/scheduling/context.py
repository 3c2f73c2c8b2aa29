"""One pass's picture of the queue and the devices: what is still open, on top of what earlier passes found out.

Arrives: the state, which is only read, and what is known. The board changes as proposals are admitted, and only ever loses room.
What was refused stays refused until something about the device, or what is known of the job, is another: so a pass looks at
what changed, and the first one at everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from gpuq.core.scheduling.admit import Place, admit
from gpuq.core.scheduling.cache import Known, Memo, question
from gpuq.core.scheduling.candidates import Options
from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.reservations import Keeping
from gpuq.core.state.attempt import AttemptId, served_s
from gpuq.core.state.device import Device, DeviceId
from gpuq.core.state.forecast import Answers, Forecast
from gpuq.core.state.index import Group, Likeness, likeness
from gpuq.core.state.job import Job, JobId
from gpuq.core.state.state import State
from gpuq.core.state.usage import UNUSED
from gpuq.core.state.verdict import Numbers, Rule, Verdict


class Board:
    """What a policy sees, and what `decide` updates."""

    def __init__(self, state: State, answers: Answers, limits: Limits, now: float) -> None:
        self.state = state
        self.known = answers if isinstance(answers, Known) else Known(dict(answers))
        self.limits = limits
        self.now = now
        self.known.sync(state, limits, now)
        self._places = self.known.places
        self._given: set[DeviceId] = set()
        self._refused: dict[Likeness, Verdict] = {}
        self._placed: set[JobId] = set()
        self.kept_back: dict[JobId, Verdict] = {}
        self._usage: dict[str, float] = {}
        self.evicted: set[AttemptId] = set()
        self._keeping = Keeping(state, self.known, limits, now, self._given)
        self._options = Options(self.known, limits, self._keeping, self._given)

    # --- who waits -------------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> list[Job]:
        """All jobs that wait, in the order in which they came to; `groups` is cheaper to go through."""
        return list(self.state.index.waiting.values())

    @property
    def groups(self) -> list[Group]:
        """The waiting jobs by likeness, priority and owner, in order of submission within a group. To be read only.

        Jobs of a group get the same verdicts: once one of them is refused, so is the rest of its group in this pass.
        """
        return list(self.state.index.groups.values())

    def refused(self, job: Job) -> Verdict | None:
        """The verdict that jobs like this one already got in this pass, or in an earlier one if nothing came up since."""
        like = likeness(job)
        found = self._refused.get(like)
        if found is not None or self._keeping.is_for(job) or self._keeping.is_overdue(job):
            return found
        memo = self.known.memos.get(like)
        if memo is None or memo.exhausted_at is None or memo.exhausted_at < self._places.opened:
            return None
        if memo.reason is None and self.state.residents and job.device_count == 1:
            return None  # a busy place has numbers to say why
        return memo.reason or self.nothing_open()

    def keep_back(self, job: Job, verdict: Verdict) -> None:
        """The policy's own reason why it does not propose this very job now."""
        self.kept_back[job.id] = verdict

    def placed(self, job: Job) -> bool:
        """Whether the job got its devices in this pass."""
        return job.id in self._placed

    def usage(self, owner: str) -> float:
        """Decayed device-seconds of an owner, with what the attempts that run have had so far."""
        found = self._usage.get(owner)
        if found is None:
            running = (self.state.attempts[attempt] for attempt in self.state.index.live_of.get(owner, ()))
            before = self.state.usage.get(owner, UNUSED).by(self.now)
            found = self._usage[owner] = before + sum(served_s(attempt, self.now) for attempt in running)
        return found

    # --- what there is ---------------------------------------------------------------------------------------------

    def place(self, device: DeviceId) -> Place:
        """A device as this pass sees it now. Raises KeyError for one that there is not."""
        place = self._places.all[device]
        return replace(place, reserved=True) if device in self._keeping.devices else place

    @property
    def places(self) -> Iterator[Place]:
        """All devices."""
        return (self.place(device) for device in self._places.all)

    def given(self, device: DeviceId) -> bool:
        """Whether the device got a job in this pass."""
        return device in self._given

    @property
    def sorts(self) -> Iterable[Device]:
        """One device of each sort: forecasts differ by that alone."""
        return self._places.sorts.values()

    @property
    def shares(self) -> bool:
        """Whether any busy device is open to a newcomer."""
        return bool(self._places.shareable)

    def nothing_open(self) -> Verdict:
        """Why a job waits that was refused nothing in particular."""
        count = len(self._places.all)
        if not count:
            return Verdict(False, Rule.NO_DEVICES, None, (("devices", 0),))
        if self._places.unread == count:
            return Verdict(False, Rule.STALE_READING, None, (("stale_after_s", self.limits.stale_after_s),))
        if self._places.unwell and self._places.unread + self._places.unwell == count:
            return Verdict(False, Rule.UNWELL, None, (("devices", count), ("unwell_devices", self._places.unwell)))
        numbers: Numbers = (("devices", count), ("busy_devices", len(self.state.residents)))
        unusable = self._places.unread + self._places.unwell
        return Verdict(False, Rule.RESOURCES, None, (*numbers, ("unusable_devices", unusable)) if unusable else numbers)

    # --- what is foretold ------------------------------------------------------------------------------------------

    def forecast(self, job: Job, place: Place) -> Forecast:
        """The answer to this job on this device beside who is there; the answer alone where no pair was asked about."""
        return self.known.forecast(job, place)

    def forecast_alone(self, job: Job, device: Device) -> Forecast:
        """The answer to this job with a device of this sort to itself."""
        return self.known.forecast_alone(job, device)

    # --- what may be tried -----------------------------------------------------------------------------------------

    def choices(self, job: Job) -> Iterator[tuple[Place, ...]]:
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
        if job.device_count == 1 and self.known.memo(likeness(job)).reason is None:
            busy = self._options.busy(self.state.residents)
            yield from [] if busy is None else [(busy,)]

    def shared_options(self, job: Job) -> list[Place]:
        """Busy places where the job fits by memory, the least loaded first; by utilisation too where no pair is known."""
        return self._options.shared(job)

    # --- what was disposed -----------------------------------------------------------------------------------------

    def judge(self, job: Job, device: DeviceId) -> Verdict:
        """May this job have this device? A no is remembered until the device changes or something is learned."""
        place = self._places.all[device] if self._keeping.is_for(job) else self.place(device)
        verdict = admit(job, self.forecast(job, place), place, self.limits)
        settled = not place.reserved and (not place.residents or question(job, place) in self.known)
        if not verdict.admitted and settled:
            self.known.memo(likeness(job)).noes[device] = self._places.turn
        return verdict

    def refuse(self, job: Job, verdict: Verdict) -> None:
        """Remember why jobs like this one wait; the first reason stays, it is about the best place."""
        like = likeness(job)
        self._refused.setdefault(like, verdict)
        memo = self.known.memo(like)
        if memo.reason is None or self._is_outdated(memo):
            memo.reason, memo.reason_at = verdict, self._places.turn
            self.known.restless.add(like)
        self._keeping.want(job)

    def renew_reasons(self) -> None:
        """Where the device that a reason speaks of has changed since, ask it again: what people read is true."""
        if self.known.reasons_at == self._places.turn:
            return
        self.known.reasons_at = self._places.turn
        for like, groups in self.state.index.alike.items():
            memo = self.known.memos.get(like)
            if memo and memo.reason and memo.reason.device and self._is_outdated(memo):
                verdict = self.judge(next(iter(groups.values())).head, memo.reason.device)
                if verdict.admitted or verdict.rule is not memo.reason.rule:
                    self.known.restless.add(like)
                memo.reason, memo.reason_at = None if verdict.admitted else verdict, self._places.turn

    def _is_outdated(self, memo: Memo) -> bool:
        device = memo.reason.device if memo.reason else None
        return device is not None and self._places.changed.get(device, 0) > memo.reason_at

    def place_job(self, job: Job, devices: Iterable[DeviceId]) -> None:
        """The job got these devices: nobody else gets them in this pass, since the answers no longer speak of them."""
        self._placed.add(job.id)
        self._given.update(devices)

    def end(self) -> None:
        """The policy has proposed all it wants: nothing is kept for a job that it would not start."""
        self._keeping.end()
