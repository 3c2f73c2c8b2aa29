"""One pass's picture of the queue and the devices: what is still open, kept in order so that a pass stays near-linear.

Arrives: the state, which is only read. The board changes as proposals are admitted, and only ever loses room: a signature
that was refused everywhere stays refused for the rest of the pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from math import inf

from gpuq.core.admit import Place, may_share, needed_memory
from gpuq.core.attempt import AttemptId, served_s
from gpuq.core.device import Device, DeviceId, HostId, Reading
from gpuq.core.forecast import UNKNOWN, Answers, Forecast, Question
from gpuq.core.job import Job, JobId, JobState
from gpuq.core.limits import Limits
from gpuq.core.state import State
from gpuq.core.usage import UNUSED
from gpuq.core.verdict import Verdict

# Jobs that get the same answer everywhere: same forecast, same wishes.
Likeness = tuple[str, str, bool, float | None, int | None, int, int | None]
# What makes two devices get the same answers: their type, and the way of sharing.
Sort = tuple[str, str | None]


class Board:
    """What a policy sees, and what `decide` updates."""

    def __init__(self, state: State, answers: Answers, limits: Limits, now: float) -> None:
        self.state = state
        self.answers = answers
        self.limits = limits
        self.now = now
        self.waiting = [job for job in state.jobs.values() if job.state is JobState.PENDING]
        self._places = {device.id: self._place(device) for device in state.devices.values()}
        idle = (place for place in self._places.values() if not place.residents and place.reading)
        # Those that foreign processes leave alone come first, so that the few tried are the best.
        self._idle = {place.device.id: place for place in sorted(idle, key=lambda p: p.committed_memory)}
        least_loaded_first = sorted(self._shareable(), key=lambda p: (p.committed_utilization, p.device.id))
        self._shareable_places = {place.device.id: place for place in least_loaded_first}
        sorts = {sort_of(place.device): place.device for place in least_loaded_first}
        self._shareable_sorts = list(sorts.items())
        self._busy = {p.device.id: p for p in self._places.values() if p.residents}
        self._given: set[DeviceId] = set()
        self._refused: dict[Likeness, Verdict] = {}
        self._placed: set[JobId] = set()
        self._kept_back: dict[JobId, Verdict] = {}
        self.evicted: set[AttemptId] = set()
        self._alone: dict[tuple[str, Sort], Forecast] = {}

    def place(self, device: DeviceId) -> Place:
        """A device as this pass sees it now."""
        return self._places[device]

    @property
    def places(self) -> Iterator[Place]:
        """All devices."""
        return iter(self._places.values())

    def forecast(self, job: Job, place: Place) -> Forecast:
        """The answer to this job on this device beside who is there; the answer alone where no pair was asked about."""
        together = self.answers.get(question(job, place)) if place.residents else None
        return together or self.forecast_alone(job, place.device)

    def forecast_alone(self, job: Job, device: Device) -> Forecast:
        """The answer to this job with a device of this sort to itself."""
        key = (job.signature, sort_of(device))
        found = self._alone.get(key)
        if found is None:
            found = self._alone[key] = self.answers.get(question_alone(job, device), UNKNOWN)
        return found

    @property
    def shares(self) -> bool:
        """Whether any busy device is open to a newcomer."""
        return bool(self._shareable_places)

    def choices(self, job: Job) -> Iterator[tuple[Place, ...]]:
        """Places worth a verdict, best first, each choice as many devices of one host as the job needs: idle ones, then shared
        ones, at most `candidates_per_job` of each. If there is none, busy ones, so that the refusal has its numbers."""
        found = False
        for choice in self._choices(job):
            found = True
            yield choice
        if not found and self._busy and job.device_count == 1:
            yield (next(iter((self._shareable_places or self._busy).values())),)

    def usage(self, owner: str) -> float:
        """Decayed device-seconds of an owner, with what the attempts that run have had so far."""
        running = (a for a in self.state.attempts.values() if self.state.jobs[a.id.job].owner == owner)
        return self.state.usage.get(owner, UNUSED).by(self.now) + sum(served_s(a, self.now) for a in running)

    def _choices(self, job: Job) -> Iterator[tuple[Place, ...]]:
        idle, shared = self._idle_options(job), self.shared_options(job)
        if job.device_count == 1:
            yield from ((place,) for place in (*idle, *shared))
            return
        hosts: dict[HostId, list[Place]] = {}
        for place in (*idle, *shared):
            hosts.setdefault(place.device.host, []).append(place)
        gangs = (places[: job.device_count] for places in hosts.values() if len(places) >= job.device_count)
        yield from map(tuple, sorted(gangs, key=lambda places: sum(bool(place.residents) for place in places)))

    def shared_options(self, job: Job) -> list[Place]:
        """Busy places where the job fits by memory, the least loaded first; by utilisation too where no pair is known."""
        most = self.limits.candidates_per_job if job.device_count == 1 else None
        return list(islice(self._places_to_join(job), most))

    def _places_to_join(self, job: Job) -> Iterator[Place]:
        needs = self._needs_to_share(job)
        if not needs:
            return
        room = max(room for room, _ in needs.values())
        for place in self._shareable_places.values():
            if place.committed_utilization > room:
                return  # the places only get more loaded from here on
            need = needs.get(sort_of(place.device))
            if need is None or place.committed_utilization > need[0]:
                continue
            if need[1] <= place.device.total_memory * (1 - self.limits.memory_headroom) - place.committed_memory:
                yield place

    def _needs_to_share(self, job: Job) -> dict[Sort, tuple[float, int]]:
        """By sort of device: what may be committed there already, in percent, and the memory needed. Without an end to the
        former where pairs are known; sorts where the job may not share, or is not known, are left out."""
        needs = {}
        for sort, device in self._shareable_sorts:
            forecast = self.forecast_alone(job, device)
            peak, needed = forecast.peak_utilization_pct, needed_memory(job, forecast)
            if peak is not None and needed is not None and may_share(job, forecast):
                room = inf if forecast.pairs_known else self.limits.utilization_pct - peak
                needs[sort] = (room, needed)
        return needs

    def _idle_options(self, job: Job) -> list[Place]:
        most = self.limits.candidates_per_job if job.device_count == 1 else None
        return list(islice(filter(partial(self._fits_alone, job), self._idle.values()), most))

    def refused(self, job: Job) -> Verdict | None:
        """The verdict that jobs like this one already got in this pass."""
        return self._refused.get(likeness(job))

    def refuse(self, job: Job, verdict: Verdict) -> None:
        """Remember why jobs like this one wait; the first reason stays, it is about the best place."""
        self._refused.setdefault(likeness(job), verdict)

    def keep_back(self, job: Job, verdict: Verdict) -> None:
        """The policy's own reason why it does not propose this very job now."""
        self._kept_back[job.id] = verdict

    def kept_back(self, job: Job) -> Verdict | None:
        """That reason, if the policy gave one in this pass."""
        return self._kept_back.get(job.id)

    def place_job(self, job: Job, devices: Iterable[DeviceId]) -> None:
        """The job got these devices: nobody else gets them in this pass, since the answers no longer speak of them."""
        self._placed.add(job.id)
        for device in devices:
            self._given.add(device)
            self._close(device)

    def given(self, device: DeviceId) -> bool:
        """Whether the device got a job in this pass."""
        return device in self._given

    def placed(self, job: Job) -> bool:
        """Whether the job got its devices in this pass."""
        return job.id in self._placed

    def reserve(self, device: DeviceId) -> None:
        """Keep the device for a job that has waited too long."""
        self._close(device)
        self._places[device] = replace(self._places[device], reserved=True)

    def _close(self, device: DeviceId) -> None:
        self._idle.pop(device, None)
        self._shareable_places.pop(device, None)
        self._busy.pop(device, None)

    def _place(self, device: Device) -> Place:
        return Place(device, self.state.residents_of(device.id), self._fresh_reading(device.id))

    def _fresh_reading(self, device: DeviceId) -> Reading | None:
        reading = self.state.readings.get(device)
        return reading if reading and self.now - reading.at <= self.limits.stale_after_s else None

    def _shareable(self) -> Iterator[Place]:
        for place in self._places.values():
            open_to_more = 0 < len(place.residents) < self.limits.residents_per_device
            if open_to_more and place.reading and all(a.shares for a in place.residents):
                yield place

    def _fits_alone(self, job: Job, place: Place) -> bool:
        return (job.declared_memory or 0) + place.committed_memory <= place.device.total_memory


def likeness(job: Job) -> Likeness:
    """What makes two waiting jobs get the same verdicts."""
    wishes = (job.max_slowdown, job.declared_memory, job.device_count, job.most_devices)
    return (job.signature, job.sharing, job.alone, *wishes)


def question_alone(job: Job, device: Device) -> Question:
    """What would this job need on this sort of device?"""
    return Question(job.signature, job.kind, device.type, sharing=device.sharing)


def question(job: Job, place: Place) -> Question:
    """What would this job need and cost on this device, beside who is there?"""
    device, beside = place.device, tuple(sorted(a.kind for a in place.residents))
    return Question(job.signature, job.kind, device.type, beside, device.sharing)


def sort_of(device: Device) -> Sort:
    """The type of device, and its way of sharing."""
    return device.type, device.sharing
