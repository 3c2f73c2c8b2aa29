"""What the state keeps in order, so that a pass need not walk all of it: who waits, who is to be closed, what was touched.

Written by `apply` alone, through the functions that replace a job or an attempt; it says nothing that the state does not
say, so two states that are equal have equal indexes but for the numbering of touches. `Index` knows no limits and no forecasts.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from operator import attrgetter

from gpuq.core.state.attempt import Attempt, AttemptId
from gpuq.core.state.device import Device, DeviceId, HostId
from gpuq.core.state.job import ACTIVE, ENDED, Job, JobId, JobState

# Jobs that get the same answer everywhere: same forecast, same wishes.
SchedulingClass = tuple[str, str, bool, float | None, int | None, int, int | None]
# Waiting jobs of one scheduling class, priority and owner. A policy that orders by these and by age needs only the first job
# of each group.
GroupKey = tuple[SchedulingClass, int, str]
# What makes two devices get the same answers: their type, and the way of sharing.
DeviceClass = tuple[str, str | None]

_first_come = attrgetter("submitted_at", "id")


@dataclass(slots=True)
class PendingGroup:
    """Waiting jobs of one scheduling class, priority and owner, in order of submission. Never empty; read-only for policies."""

    scheduling_class: SchedulingClass
    priority: int
    owner: str
    jobs: list[Job] = field(default_factory=list)

    @property
    def head(self) -> Job:
        """The one submitted first."""
        return self.jobs[0]

    @property
    def key(self) -> GroupKey:
        """What its jobs have in common."""
        return self.scheduling_class, self.priority, self.owner

    def add(self, job: Job) -> None:
        """Put a job in its place."""
        if self.jobs and _first_come(job) < _first_come(self.jobs[-1]):
            insort(self.jobs, job, key=_first_come)
        else:
            self.jobs.append(job)

    def remove(self, job: Job) -> None:
        """Take out a job that is in it."""
        del self.jobs[bisect_left(self.jobs, _first_come(job), key=_first_come)]


@dataclass
class Index:
    """Facts derived from the state, so that a pass costs what changed and not what there is.

    Dictionaries stand for ordered sets. `needs_verdict`: waiting jobs without a verdict. `cancelling`: jobs with a live attempt
    whose end was requested. `last_heartbeats` (attempts) and `last_reports` (hosts): the longest silent first.
    """

    waiting: dict[JobId, Job] = field(default_factory=dict)
    groups: dict[GroupKey, PendingGroup] = field(default_factory=dict)
    classes: dict[SchedulingClass, dict[GroupKey, PendingGroup]] = field(default_factory=dict)
    needs_verdict: dict[JobId, None] = field(default_factory=dict)
    ended: dict[JobId, None] = field(default_factory=dict)
    cancelling: dict[JobId, None] = field(default_factory=dict)
    last_heartbeats: dict[AttemptId, float] = field(default_factory=dict)
    running_of: dict[str, dict[AttemptId, None]] = field(default_factory=dict)
    last_reports: dict[HostId, float] = field(default_factory=dict)
    devices_of: dict[HostId, dict[DeviceId, None]] = field(default_factory=dict)
    touched: dict[DeviceId, int] = field(default_factory=dict, compare=False)
    touches: int = field(default=0, compare=False)
    """Counts all touches; `touched` has the number of each device's last one, the latest last."""
    device_changes: int = field(default=0, compare=False)

    # --- jobs ------------------------------------------------------------------------------------------------------

    def job_changed(self, old: Job | None, new: Job | None) -> None:
        """A job came, became another, or left."""
        if old is not None and (new is None or new.state is not old.state):
            self._forget(old)
        elif old is not None and new is not None and old.state is JobState.PENDING:
            self._leave_group(old)
            self._join_group(new)
        if new is not None:
            self._take_up(new, came=old is None or old.state is not new.state)

    def verdict_set(self, job: JobId) -> None:
        """The job has a verdict."""
        self.needs_verdict.pop(job, None)

    def _take_up(self, job: Job, *, came: bool) -> None:
        if job.state is JobState.PENDING and came:
            self.needs_verdict[job.id] = None
            self._join_group(job)
        elif job.state in ENDED:
            self.ended[job.id] = None
        elif job.state in ACTIVE and job.cancel_requested:
            self.cancelling[job.id] = None

    def _forget(self, job: Job) -> None:
        if job.state is JobState.PENDING:
            self.needs_verdict.pop(job.id, None)
            self._leave_group(job)
        self.ended.pop(job.id, None)
        self.cancelling.pop(job.id, None)

    def _join_group(self, job: Job) -> None:
        self.waiting[job.id] = job
        like = scheduling_class(job)
        key = (like, job.priority, job.owner)
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = PendingGroup(*key)
            self.classes.setdefault(like, {})[key] = group
        group.add(job)

    def _leave_group(self, job: Job) -> None:
        del self.waiting[job.id]
        like = scheduling_class(job)
        key = (like, job.priority, job.owner)
        self.groups[key].remove(job)
        if not self.groups[key].jobs:
            del self.groups[key]
            del self.classes[like][key]
            if not self.classes[like]:
                del self.classes[like]

    # --- attempts and devices --------------------------------------------------------------------------------------

    def attempt_changed(self, old: Attempt | None, new: Attempt | None, owner: str) -> None:
        """An attempt came, became another, or left: its devices are touched."""
        attempt = new or old
        assert attempt is not None, "an attempt that neither was nor is"
        if new is None:
            self._drop(attempt.id, owner)
        else:
            self.running_of.setdefault(owner, {})[attempt.id] = None
            self._note_heartbeat(old, new)
        for device in attempt.devices:
            self.touch(device)

    def _drop(self, attempt: AttemptId, owner: str) -> None:
        self.last_heartbeats.pop(attempt, None)
        del self.running_of[owner][attempt]
        if not self.running_of[owner]:
            del self.running_of[owner]

    def _note_heartbeat(self, old: Attempt | None, new: Attempt) -> None:
        if new.revoking:
            self.last_heartbeats.pop(new.id, None)
        elif old is None or old.revoking or last_heartbeat(old) != last_heartbeat(new):
            self.last_heartbeats.pop(new.id, None)
            self.last_heartbeats[new.id] = last_heartbeat(new)

    def device_changed(self, old: Device | None, new: Device) -> None:
        """A device came, or became another."""
        if old == new:
            return
        if old is not None and old.host != new.host:
            self.devices_of[old.host].pop(old.id)
        self.devices_of.setdefault(new.host, {})[new.id] = None
        self.device_changes += 1
        self.touch(new.id)

    def host_reported(self, host: HostId, now: float) -> None:
        """A host spoke: the readings of its devices are of this moment."""
        self.last_reports.pop(host, None)
        self.last_reports[host] = now
        for device in self.devices_of.get(host, ()):
            self.touch(device)

    def touch(self, device: DeviceId) -> None:
        """Something about this device, or who is on it, may be another now."""
        self.touches += 1
        self.touched.pop(device, None)
        self.touched[device] = self.touches

    def touched_since(self, touches: int) -> list[DeviceId]:
        """The devices touched after so many touches, the latest first."""
        return latest_since(self.touched, touches)


def latest_since(log: dict[DeviceId, int], number: int) -> list[DeviceId]:
    """The devices of a log, in which the latest stands last, that have a number beyond this one; the latest first."""
    found = []
    for device in reversed(log):
        if log[device] <= number:
            break
        found.append(device)
    return found


def last_heartbeat(attempt: Attempt) -> float:
    """When its host last spoke of an attempt; when it was ordered, before that."""
    return attempt.launched_at if attempt.last_reported is None else attempt.last_reported


def scheduling_class(job: Job) -> SchedulingClass:
    """What makes two waiting jobs get the same verdicts."""
    wishes = (job.max_slowdown, job.declared_memory, job.device_count, job.most_devices)
    return (job.signature, job.sharing, job.alone, *wishes)


def device_class(device: Device) -> DeviceClass:
    """The type of device, and its way of sharing."""
    return device.type, device.sharing
