"""Indexes over the state, so that a pass need not go through all of it: waiting jobs, ended jobs, touched devices.

Only `apply` writes them, through the functions that replace a job or an attempt. They hold nothing that does not follow from the
state, so equal states have equal indexes but for the numbering of touches. They depend on no limits and no forecasts.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter

from gpuq.core.state.attempt import Attempt, AttemptId
from gpuq.core.state.constraints import DeviceConstraints
from gpuq.core.state.dependency import Dependency, DependencyType
from gpuq.core.state.device import Device, DeviceId, HostId
from gpuq.core.state.job import ACTIVE, ENDED, WAITING, Job, JobId, JobState
from gpuq.core.state.quota import Account

# Jobs of one class get the same verdict from every device: they have the same forecasts and the same requirements. Owner and time
# limit count because of bookings, with `preemptible` because of devices that are given back, and `tried` because of trials.
SchedulingClass = tuple[
    str,
    str,
    bool,
    float | None,
    int | None,
    int,
    int | None,
    int,
    str,
    float | None,
    bool,
    bool,
    DeviceConstraints | None,
]
# A policy that orders jobs by priority, owner and age needs to look only at the oldest job of each group. Quotas, and the limit
# of an array, hold for all jobs of a group alike.
GroupKey = tuple[SchedulingClass, int, str, str | None, JobId | None]
# Devices of one class get the same forecasts: same type, same way of sharing.
DeviceClass = tuple[str, str | None]

_first_come = attrgetter("waits_since", "id")


@dataclass(slots=True)
class PendingGroup:
    """Waiting jobs of one scheduling class, priority, owner and project, the longest waiting first. Never empty, read only.

    The tasks of an array with a limit on how many run at once are in groups of their own: `limited_array` is the array."""

    scheduling_class: SchedulingClass
    priority: int
    owner: str
    project: str | None
    limited_array: JobId | None
    jobs: list[Job] = field(default_factory=list)

    @property
    def head(self) -> Job:
        """The job that has waited longest."""
        return self.jobs[0]

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
    """Facts derived from the state, so that the time of a pass depends on what changed, not on the size of the queue.

    Dictionaries stand for ordered sets. `waiting`: pending jobs that are eligible; only these are in groups. `delays` has the
    others that wait for nothing but a moment, the earliest first, with that moment or 0. `dependents`: which jobs wait for
    what of others; `dependencies_on_many`: those of them that are on several jobs, by type. `never_satisfied`: jobs with a
    dependency that can never hold. `named`: the jobs of an owner and a name, in the order of ids. `needs_verdict`: pending
    jobs without a verdict. `cancelling`: jobs with a live attempt whose end was requested. `last_heartbeats` (attempts) and
    `last_reports` (hosts): the longest silent first. `running_of` has the number of devices of each live attempt of an
    account. Of arrays with a limit `limited_groups` has the groups, and `active_tasks` the tasks that have devices.
    """

    waiting: dict[JobId, Job] = field(default_factory=dict)
    groups: dict[GroupKey, PendingGroup] = field(default_factory=dict)
    limited_groups: dict[GroupKey, PendingGroup] = field(default_factory=dict)
    active_tasks: dict[JobId, set[JobId]] = field(default_factory=dict)
    classes: dict[SchedulingClass, dict[GroupKey, PendingGroup]] = field(default_factory=dict)
    delays: list[tuple[float, JobId]] = field(default_factory=list)
    dependents: dict[Dependency, dict[JobId, None]] = field(default_factory=dict)
    dependencies_on_many: dict[DependencyType, dict[Dependency, None]] = field(default_factory=dict)
    never_satisfied: dict[JobId, None] = field(default_factory=dict)
    named: dict[tuple[str, str], dict[JobId, None]] = field(default_factory=dict)
    needs_verdict: dict[JobId, None] = field(default_factory=dict)
    ended: dict[JobId, None] = field(default_factory=dict)
    cancelling: dict[JobId, None] = field(default_factory=dict)
    last_heartbeats: dict[AttemptId, float] = field(default_factory=dict)
    running_of: dict[Account, dict[AttemptId, int]] = field(default_factory=dict)
    last_reports: dict[HostId, float] = field(default_factory=dict)
    devices_of: dict[HostId, dict[DeviceId, None]] = field(default_factory=dict)
    last_open: dict[Dependency, int] = field(default_factory=dict, compare=False)
    """Of each in `dependents` the last of its jobs that is not archived; for a start the first. Beyond them where all are."""
    last_opens: dict[int, dict[Dependency, None]] = field(default_factory=dict, compare=False)
    """`last_open` the other way round."""
    touched: dict[DeviceId, int] = field(default_factory=dict, compare=False)
    touches: int = field(default=0, compare=False)
    """Counts all touches; `touched` has the number of each device's last one, the latest last."""
    device_changes: int = field(default=0, compare=False)
    hosts_forgotten: int = field(default=0, compare=False)

    # --- jobs ------------------------------------------------------------------------------------------------------

    def job_changed(self, old: Job | None, new: Job | None) -> None:
        """Take in a job that is new (`old` is None), changed, or removed (`new` is None)."""
        waited, waits = (job is not None and job.state is JobState.PENDING for job in (old, new))
        if old is not None:
            self._take_out(old)
        if old is None or new is None or old.name != new.name:
            self._remove_name(old)
            self._add_name(new)
        if old is not None and waited and not waits:
            self.needs_verdict.pop(old.id, None)
        if new is not None:
            self._take_in(new)
            if waits and not waited:
                self.needs_verdict[new.id] = None

    def _take_out(self, job: Job) -> None:
        self.ended.pop(job.id, None)
        self.cancelling.pop(job.id, None)
        self._count_active(job, active=False)
        if job.state is JobState.PENDING:
            self._leave_queue(job)
        if job.after and job.state in WAITING:
            self._leave_dependents(job)

    def _take_in(self, job: Job) -> None:
        if job.after and job.state in WAITING:
            self._join_dependents(job)
        if job.state is JobState.PENDING:
            self._join_queue(job)
        elif job.state in ENDED:
            self.ended[job.id] = None
        elif job.state in ACTIVE:
            self._count_active(job, active=True)
            if job.cancel_requested:
                self.cancelling[job.id] = None

    def verdict_set(self, job: JobId) -> None:
        """The job has a verdict."""
        self.needs_verdict.pop(job, None)

    def verdict_dropped(self, job: JobId) -> None:
        """The verdict of a pending job does not hold any more."""
        self.needs_verdict[job] = None

    def changed_dependencies(self, job: Job, *, archived: bool) -> list[Dependency]:
        """The dependencies that a job's start, or its final end, may change.

        One on the tasks of an array does not change at the success of a task while a later one is open. To look at each such
        dependency at each end would take minutes where many wait for parts of a large array.
        """
        types = [DependencyType.START]
        if archived and job.state is not JobState.COMPLETED:
            types += [DependencyType.OK, DependencyType.FAIL]
        alone = [Dependency(type_, job.id, job.id) for type_ in DependencyType]
        of_types = (one for type_ in types for one in self.dependencies_on_many.get(type_, ()))
        many = [one for one in of_types if one.first <= job.id <= one.last]
        last = self.last_opens.get(job.id, ()) if archived else ()
        return list(dict.fromkeys([*(one for one in alone if one in self.dependents), *many, *last]))

    def dependencies_on_any(self, jobs: Iterable[JobId]) -> Iterator[Dependency]:
        """The dependencies that wait for one of these jobs."""
        ids = sorted(jobs)
        for job in ids:
            for type_ in DependencyType:
                if (alone := Dependency(type_, job, job)) in self.dependents:
                    yield alone
        for one in chain.from_iterable(self.dependencies_on_many.values()):
            place = bisect_left(ids, one.first)
            if place < len(ids) and ids[place] <= one.last:
                yield one

    def note_open(self, dependency: Dependency, job: int) -> None:
        """`last_open` of this dependency, if a job waits for it, is this job."""
        if self.last_open.get(dependency) != job and dependency in self.dependents:
            self._forget_open(dependency)
            self.last_open[dependency] = job
            self.last_opens.setdefault(job, {})[dependency] = None

    def _forget_open(self, dependency: Dependency) -> None:
        job = self.last_open.pop(dependency, None)
        if job is not None:
            del self.last_opens[job][dependency]
            if not self.last_opens[job]:
                del self.last_opens[job]

    def is_first_of_name(self, job: Job) -> bool:
        """Whether no earlier job of its owner with its name is in the state."""
        same = self.named.get((job.owner, job.name or ""))
        return same is None or next(iter(same)) == job.id

    def awaits_moment(self, job: Job) -> bool:
        """Whether nothing but time keeps a pending job from being eligible."""
        return not job.eligible and not job.after and (not job.singleton or self.is_first_of_name(job))

    def _add_name(self, job: Job | None) -> None:
        if job is None or job.name is None:
            return
        key = (job.owner, job.name)
        same = self.named.setdefault(key, {})
        last = next(reversed(same), 0)
        same[job.id] = None
        if job.id < last:
            self.named[key] = dict.fromkeys(sorted(same))

    def _remove_name(self, job: Job | None) -> None:
        if job is None or job.name is None:
            return
        key = (job.owner, job.name)
        del self.named[key][job.id]
        if not self.named[key]:
            del self.named[key]

    def _join_queue(self, job: Job) -> None:
        if job.eligible:
            self._join_group(job)
        elif self.awaits_moment(job):
            insort(self.delays, (job.not_before or 0.0, job.id))

    def _leave_queue(self, job: Job) -> None:
        if job.eligible:
            self._leave_group(job)
            return
        delay = (job.not_before or 0.0, job.id)
        place = bisect_left(self.delays, delay)
        if self.delays[place : place + 1] == [delay]:
            del self.delays[place]

    def _join_dependents(self, job: Job) -> None:
        for dependency in job.after:
            self.dependents.setdefault(dependency, {})[job.id] = None
            if dependency.first != dependency.last:
                self.dependencies_on_many.setdefault(dependency.type, {})[dependency] = None

    def _leave_dependents(self, job: Job) -> None:
        self.never_satisfied.pop(job.id, None)
        for dependency in job.after:
            del self.dependents[dependency][job.id]
            if not self.dependents[dependency]:
                del self.dependents[dependency]
                self._remove_from_many(dependency)
                self._forget_open(dependency)

    def _remove_from_many(self, dependency: Dependency) -> None:
        if dependency.first != dependency.last:
            del self.dependencies_on_many[dependency.type][dependency]
            if not self.dependencies_on_many[dependency.type]:
                del self.dependencies_on_many[dependency.type]

    def _join_group(self, job: Job) -> None:
        self.waiting[job.id] = job
        key = group_key(job)
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = PendingGroup(*key)
            self.classes.setdefault(group.scheduling_class, {})[key] = group
            if group.limited_array is not None:
                self.limited_groups[key] = group
        group.add(job)

    def _leave_group(self, job: Job) -> None:
        del self.waiting[job.id]
        key = group_key(job)
        of_class = key[0]
        self.groups[key].remove(job)
        if not self.groups[key].jobs:
            del self.groups[key]
            self.limited_groups.pop(key, None)
            del self.classes[of_class][key]
            if not self.classes[of_class]:
                del self.classes[of_class]

    def _count_active(self, job: Job, *, active: bool) -> None:
        """Count a task that has devices, or does not any more, if its array has a limit."""
        if job.array is None or job.most_at_once is None:
            return
        tasks = self.active_tasks.setdefault(job.array, set())
        if active:
            tasks.add(job.id)
        else:
            tasks.discard(job.id)
        if not tasks:
            del self.active_tasks[job.array]

    # --- attempts and devices --------------------------------------------------------------------------------------

    def attempt_changed(self, old: Attempt | None, new: Attempt | None, job: Job) -> None:
        """Take in an attempt of `job` that is new, changed or removed; its devices are touched."""
        attempt = new or old
        assert attempt is not None, "neither the old nor the new attempt is given"
        if new is None:
            self.last_heartbeats.pop(attempt.id, None)
            for account in job.accounts:
                del self.running_of[account][attempt.id]
                if not self.running_of[account]:
                    del self.running_of[account]
        else:
            if old is None:
                for account in job.accounts:
                    self.running_of.setdefault(account, {})[attempt.id] = len(attempt.devices)
            # The longest silent stand first, so a new heartbeat puts the attempt at the end.
            if new.revoking or old is None or last_heartbeat(old) != last_heartbeat(new):
                self.last_heartbeats.pop(attempt.id, None)
            if not new.revoking:
                self.last_heartbeats.setdefault(attempt.id, last_heartbeat(new))
        for device in attempt.devices:
            self.touch(device)

    def device_changed(self, old: Device | None, new: Device) -> None:
        """Take in a device that is new or changed."""
        if old == new:
            return
        if old is not None and old.host != new.host:
            self.devices_of[old.host].pop(old.id)
            if not self.devices_of[old.host]:
                del self.devices_of[old.host]
        self.devices_of.setdefault(new.host, {})[new.id] = None
        self.device_changes += 1
        self.touch(new.id)

    def host_reported(self, host: HostId, now: float) -> None:
        """A host reported: the readings of its devices are as of now."""
        self.last_reports.pop(host, None)
        self.last_reports[host] = now
        for device in self.devices_of.get(host, ()):
            self.touch(device)

    def host_forgotten(self, host: HostId) -> None:
        """A host and its devices are gone."""
        self.last_reports.pop(host, None)
        for device in self.devices_of.pop(host, ()):
            self.touched.pop(device, None)
        self.device_changes += 1
        self.hosts_forgotten += 1

    def touch(self, device: DeviceId) -> None:
        """Note that this device, its reading or its residents may have changed."""
        self.touches += 1
        self.touched.pop(device, None)
        self.touched[device] = self.touches

    def touched_since(self, touches: int) -> list[DeviceId]:
        """The devices touched after so many touches, the latest first."""
        return latest_since(self.touched, touches)


def latest_since(log: dict[DeviceId, int], number: int) -> list[DeviceId]:
    """The devices that a log, in which the latest stands last, has with a larger number than this; the latest first."""
    found = []
    for device in reversed(log):
        if log[device] <= number:
            break
        found.append(device)
    return found


def last_heartbeat(attempt: Attempt) -> float:
    """When the host last reported an attempt; its launch, if it never did."""
    return attempt.launched_at if attempt.last_reported is None else attempt.last_reported


def scheduling_class(job: Job) -> SchedulingClass:
    """The scheduling class of a job."""
    requirements = (job.max_slowdown, job.declared_memory, job.device_count, job.most_devices, job.host_count)
    return (
        job.signature,
        job.sharing,
        job.alone,
        *requirements,
        job.owner,
        job.time_limit_s,
        job.preemptible,
        job.tried,
        job.constraints,
    )


def group_key(job: Job) -> GroupKey:
    """Which group a waiting job is in."""
    limited_array = None if job.most_at_once is None else job.array
    return scheduling_class(job), job.priority, job.owner, job.project, limited_array


def device_class(device: Device) -> DeviceClass:
    """The class of a device."""
    return device.type, device.sharing
