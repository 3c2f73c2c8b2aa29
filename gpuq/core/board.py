"""One pass's picture of the queue and the devices: what is still open, on top of what earlier passes found out.

Arrives: the state, which is only read, and what is known. The board changes as proposals are admitted, and only ever loses room.
What was refused stays refused until something about the device, or what is known of the job, is another: so a pass looks at
what changed, and the first one at everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import inf

from gpuq.core.admit import Place, admit, load_limit, may_share, needed_memory
from gpuq.core.attempt import AttemptId, served_s
from gpuq.core.device import Device, DeviceId, HostId
from gpuq.core.drain import drained
from gpuq.core.forecast import UNKNOWN, Answers, Forecast, Question
from gpuq.core.index import Group, Likeness, Sort, likeness, sort_of
from gpuq.core.job import Job, JobId
from gpuq.core.known import Kept, Known, Memo
from gpuq.core.limits import Limits
from gpuq.core.places import Entry
from gpuq.core.state import State
from gpuq.core.usage import UNUSED
from gpuq.core.verdict import Rule, Verdict

_NONE: frozenset[DeviceId] = frozenset()
# One place in so many has the memory: then sorting these is cheaper than passing by the others.
_FEW = 8


@dataclass(slots=True)
class _Row:
    """Places in an order; `start` is where those begin that nobody got in this pass."""

    entries: Sequence[Entry]
    start: int = 0


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
        self._undrainable: set[tuple[int | None, int]] = set()
        self._usage: dict[str, float] = {}
        self.evicted: set[AttemptId] = set()
        self._uphold()
        self._wanted = False
        whole = _Row(self._places.idle), _Row(self._places.shareable)
        self._rows: dict[int | None, tuple[_Row, _Row]] = {None: whole}

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
        if found is not None or self._is_kept_for(job) or self._is_overdue(job):
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
        return replace(place, reserved=True) if device in self._reserved else place

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
        return Verdict(False, Rule.RESOURCES, None, (("devices", count), ("busy_devices", len(self.state.residents))))

    # --- what is foretold ------------------------------------------------------------------------------------------

    def forecast(self, job: Job, place: Place) -> Forecast:
        """The answer to this job on this device beside who is there; the answer alone where no pair was asked about."""
        together = self.known.get(question(job, place)) if place.residents else None
        return together or self.forecast_alone(job, place.device)

    def forecast_alone(self, job: Job, device: Device) -> Forecast:
        """The answer to this job with a device of this sort to itself."""
        key = (job.signature, sort_of(device))
        found = self.known.alone.get(key)
        if found is None:
            found = self.known.get(question_alone(job, device))
            if found is None:
                return UNKNOWN
            self.known.alone[key] = found
        return found

    # --- what may be tried -----------------------------------------------------------------------------------------

    def choices(self, job: Job) -> Iterator[tuple[Place, ...]]:
        """Places worth a verdict, best first, each choice as many devices of one host as the job needs: idle ones, then shared
        ones, at most `candidates_per_job` of each. If there is none, a busy one, so that the refusal has its numbers.

        Where a place was refused before to jobs like this one, and nothing about it changed, it is left out.
        """
        memo, found = self.known.memo(likeness(job)), False
        for choice in self._gangs(job, memo) if job.device_count > 1 else self._singles(job, memo):
            found = True
            yield choice
        if found:
            return
        self._want(job)
        if job.device_count == 1 and memo.reason is None:
            yield from self._busy()

    def shared_options(self, job: Job) -> list[Place]:
        """Busy places where the job fits by memory, the least loaded first; by utilisation too where no pair is known."""
        memo = self.known.memo(likeness(job))
        if job.device_count == 1:
            return list(islice(self._places_to_join(job, memo), self.limits.candidates_per_job))
        hosts = (self._usable(job, memo, host) for host in self._hosts(job, memo))
        gangs = islice((places for places in hosts if len(places) >= job.device_count), self.limits.candidates_per_job)
        return [place for places in gangs for place in places if place.residents]

    def _singles(self, job: Job, memo: Memo) -> Iterator[tuple[Place, ...]]:
        whole = True
        for options in (self._idle_options(job, memo), self._places_to_join(job, memo)):
            for number, place in enumerate(options):
                if number == self.limits.candidates_per_job:
                    whole = False
                    break
                yield (place,)
                whole = whole and self._says_no(memo, place.device.id)
        if whole:
            memo.exhausted_at = self._places.turn
            memo.noes.clear()

    def _idle_options(self, job: Job, memo: Memo) -> Iterator[Place]:
        return (place for place in self._walk(job, memo, self._rows_since(job, memo)[0]) if _fits_alone(job, place))

    def _places_to_join(self, job: Job, memo: Memo) -> Iterator[Place]:
        needs = self._needs_to_share(job, memo)
        if not needs:
            return
        room = max(room for room, _ in needs.values())
        for place in self._walk(job, memo, self._busy_row(job, memo, min(memory for _, memory in needs.values()))):
            if place.committed_utilization > room:
                return  # the places only get more loaded from here on
            if self._may_join(place, needs):
                yield place

    def _busy_row(self, job: Job, memo: Memo, needed: int) -> _Row:
        """The open busy places to go through: those with so much memory, where they are few among many."""
        count = self._places.with_room(needed)
        if memo.exhausted_at is None and count * _FEW < len(self._places.free):
            roomy = self._places.free[len(self._places.free) - count :]
            return self._sorted(device for _, device in roomy)[1]
        return self._rows_since(job, memo)[1]

    def _may_join(self, place: Place, needs: dict[Sort, tuple[float, int]]) -> bool:
        need = needs.get(sort_of(place.device))
        if need is None or place.committed_utilization > need[0]:
            return False
        return need[1] <= place.device.total_memory * (1 - self.limits.memory_headroom) - place.committed_memory

    def _needs_to_share(self, job: Job, memo: Memo) -> dict[Sort, tuple[float, int]]:
        """By sort of device: what may be committed there already, in percent, and the memory needed. Without an end to the
        former where pairs are known; sorts where the job may not share, or is not known, are left out."""
        if memo.needs is None:
            needs, asked = {}, True
            for sort, device in self._places.sorts.items():
                forecast = self.forecast_alone(job, device)
                asked = asked and forecast is not UNKNOWN
                peak, needed = forecast.peak_utilization_pct, needed_memory(job, forecast)
                if peak is not None and needed is not None and may_share(job, forecast):
                    needs[sort] = (
                        inf if forecast.pairs_known else load_limit(job.max_slowdown, self.limits) - peak,
                        needed,
                    )
            if not asked:
                return needs
            memo.needs = needs
        return memo.needs

    def _walk(self, job: Job, memo: Memo, walked: _Row) -> Iterator[Place]:
        """The places of a row that nobody got and that are not known to refuse."""
        given, kept, all_places = self._given, self._kept_from(job), self._places.all
        entries = walked.entries
        while walked.start < len(entries) and entries[walked.start][-1] in given:
            walked.start += 1
        for number in range(walked.start, len(entries)):
            device = entries[number][-1]
            if device not in given and device not in kept and not self._says_no(memo, device):
                yield all_places[device]

    def _rows_since(self, job: Job, memo: Memo) -> tuple[_Row, _Row]:
        """All open places, or those that changed after the likeness had seen them all; what is kept for it always."""
        turn = memo.exhausted_at
        if turn is not None and self._is_kept_for(job):
            devices = dict.fromkeys((*self._places.changed_since(turn), *sorted(self._reserved)))
            return self._sorted(devices)
        if turn not in self._rows:
            self._rows[turn] = self._sorted(self._places.changed_since(turn or 0))
        return self._rows[turn]

    def _sorted(self, devices: Iterable[DeviceId]) -> tuple[_Row, _Row]:
        idle, shareable = self._places.entries(devices)
        return _Row(idle), _Row(shareable)

    def _says_no(self, memo: Memo, device: DeviceId) -> bool:
        judged = memo.noes.get(device)
        return judged is not None and self._places.changed[device] <= judged

    def _busy(self) -> Iterator[tuple[Place, ...]]:
        """Any place with residents."""
        shareable = (entry[-1] for entry in self._places.shareable)
        for device in (*islice(shareable, 1), *self.state.residents):
            if device not in self._given and device not in self._reserved:
                yield (self._places.all[device],)
                return

    # --- gangs -----------------------------------------------------------------------------------------------------

    def _gangs(self, job: Job, memo: Memo) -> Iterator[tuple[Place, ...]]:
        """On each host the best of its places; without those that were refused, as long as enough are left."""
        whole = True
        for host in self._hosts(job, memo):
            while len(places := self._usable(job, memo, host)) >= job.device_count:
                gang = tuple(places[: job.device_count])
                yield gang
                if not any(self._says_no(memo, place.device.id) for place in gang):
                    whole = False
                    break
        if whole:
            memo.exhausted_at = self._places.turn

    def _hosts(self, job: Job, memo: Memo) -> list[HostId]:
        """Hosts with enough open places: where it shares the fewest, and then where it leaves the fewest idle."""
        count, open_of, idle_of = job.device_count, self._places.open_of, self._places.idle_of
        changed = None if memo.exhausted_at is None else self._changed_hosts(memo.exhausted_at, job)
        found = [h for h, devices in open_of.items() if len(devices) >= count and (changed is None or h in changed)]
        return sorted(found, key=lambda host: (max(0, count - idle_of.get(host, 0)), idle_of.get(host, 0)))

    def _changed_hosts(self, turn: int, job: Job) -> set[HostId]:
        own = self._reserved if self._is_kept_for(job) else _NONE
        return {self._places.all[device].device.host for device in (*self._places.changed_since(turn), *own)}

    def _usable(self, job: Job, memo: Memo, host: HostId) -> list[Place]:
        """The open places of a host that may do for one device of a gang, idle ones first, then the least loaded."""
        kept, needs = self._kept_from(job), self._needs_to_share(job, memo)
        idle, shareable = self._places.entries(self._places.open_of.get(host, ()))
        found = []
        for device in (entry[-1] for entry in (*idle, *shareable)):
            place = self._places.all[device]
            if device in self._given or device in kept or self._says_no(memo, device):
                continue
            if self._may_join(place, needs) if place.residents else _fits_alone(job, place):
                found.append(place)
        return found

    # --- what was disposed -----------------------------------------------------------------------------------------

    def judge(self, job: Job, device: DeviceId) -> Verdict:
        """May this job have this device? A no is remembered until the device changes or something is learned."""
        place = self._places.all[device] if self._is_kept_for(job) else self.place(device)
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
        self._want(job)

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

    # --- those that waited too long --------------------------------------------------------------------------------

    @property
    def _reserved(self) -> frozenset[DeviceId]:
        return self.known.kept.devices if self.known.kept else _NONE

    def _is_kept_for(self, job: Job) -> bool:
        kept = self.known.kept
        return kept is not None and kept.likeness == likeness(job)

    def _kept_from(self, job: Job) -> frozenset[DeviceId]:
        return _NONE if self._is_kept_for(job) else self._reserved

    def _uphold(self) -> None:
        """Choose again what is kept, where anything changed: the same, unless other devices will be free sooner."""
        kept = self.known.kept
        if kept is None:
            return
        job = self.state.index.waiting.get(kept.job)
        if job is None:
            self._keep(None)
        elif kept.turn != self.known.places.turn:
            self._keep_for(job)

    def _want(self, job: Job) -> None:
        """The policy would start this job and cannot: after long enough, devices are kept for it."""
        if self._is_kept_for(job):
            self._wanted = True
        elif self._is_overdue(job):
            self._keep_for(job)

    def _is_overdue(self, job: Job) -> bool:
        """Whether devices are to be kept for this job: it waited too long, they are for nobody else, and some would do."""
        waited = self.now - job.submitted_at
        if self.known.kept is not None or waited <= self.limits.patience_s or waited <= self._patience_s(job):
            return False
        return (job.declared_memory, job.device_count) not in self._undrainable and not self.known.never_fits(job)

    def _patience_s(self, job: Job) -> float:
        """How long it is to wait before devices are kept for it, by its own device-time; by the sort that is quickest."""
        foretold = (self.forecast_alone(job, device).duration_p50_s for device in self.sorts)
        known = [seconds for seconds in foretold if seconds is not None]
        return self.limits.patience_ratio * job.device_count * min(known, default=0.0)

    def _keep_for(self, job: Job) -> None:
        places = self.known.places
        open_to_it = (place for device, place in places.all.items() if device not in self._given)
        devices = drained(job, open_to_it)
        if not devices:
            self._undrainable.add((job.declared_memory, job.device_count))
        self._keep(Kept(job.id, likeness(job), devices, places.turn) if devices else None)
        self._wanted = True

    def _keep(self, kept: Kept | None) -> None:
        """Who could not have a device while it was kept looks at it again."""
        released = self._reserved - (kept.devices if kept else _NONE)
        if released:
            self.known.places.bump(sorted(released))
        self.known.kept = replace(kept, turn=self.known.places.turn) if kept else None

    def end(self) -> None:
        """The policy has proposed all it wants: nothing is kept for a job that it would not start."""
        if self.known.kept is not None and not self._wanted:
            self._keep(None)


def question_alone(job: Job, device: Device) -> Question:
    """What would this job need on this sort of device?"""
    return Question(job.signature, job.kind, device.type, sharing=device.sharing)


def question(job: Job, place: Place) -> Question:
    """What would this job need and cost on this device, beside who is there?"""
    device, beside = place.device, tuple(sorted(a.kind for a in place.residents))
    return Question(job.signature, job.kind, device.type, beside, device.sharing)


def _fits_alone(job: Job, place: Place) -> bool:
    return (job.declared_memory or 0) + place.committed_memory <= place.device.total_memory
