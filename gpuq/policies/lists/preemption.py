"""Preemption rules of a list scheduler: which running attempts to stop so that a waiting job can start.

Attempts are stopped only where the job could then start. The freed devices are reserved for it until it starts, in this and
later passes, since a stopped attempt needs time to save its work. A job stops only attempts that it strictly outranks, so two
jobs never stop each other in turn. The core refuses evictions of jobs that were not submitted as preemptible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple, Protocol

from gpuq.core.scheduling.admit import DeviceSnapshot, admit
from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.policy import Eviction, Proposal
from gpuq.core.state.attempt import Attempt, AttemptId, served_s
from gpuq.core.state.device import DeviceId, HostId
from gpuq.core.state.job import Job, JobId, JobState
from gpuq.policies.lists.order import Rank, queue_of
from gpuq.policies.lists.size import Sizes


class PreemptionPass(Protocol):
    """The rule during one pass."""

    def starts_on_freed_devices(self) -> Iterator[Proposal]:
        """Starts of jobs for which others were stopped in earlier passes, where the devices are empty by now."""
        ...

    def allows(self, snapshots: tuple[DeviceSnapshot, ...]) -> bool:
        """Whether none of these devices is being freed for a job."""
        ...

    def evictions(self, job: Job) -> Iterator[Eviction]:
        """The attempts to stop so that this job can start; none where no set of them would do."""
        ...


Preemption = Callable[[SchedulingContext], PreemptionPass]


class _NoPreemption:
    def starts_on_freed_devices(self) -> Iterator[Proposal]:
        return iter(())

    def allows(self, snapshots: tuple[DeviceSnapshot, ...]) -> bool:  # noqa: ARG002 - the protocol's signature
        return True

    def evictions(self, job: Job) -> Iterator[Eviction]:  # noqa: ARG002 - the protocol's signature
        return iter(())


def no_preemption(context: SchedulingContext) -> PreemptionPass:  # noqa: ARG001 - the signature of Preemption
    """No attempt is stopped."""
    return _NoPreemption()


class PreemptionRank(Protocol):
    """Ranks of waiting and running jobs on one scale. A waiting job may stop attempts of a higher rank than its own."""

    def waiting(self, job: Job) -> Rank:
        """The rank of a waiting job."""
        ...

    def running(self, attempt: Attempt) -> Rank:
        """The rank of a running attempt."""
        ...


class Preempting:
    """Stops attempts that a waiting job outranks.

    Keeps from pass to pass the devices that are being freed for each job, and the jobs for which devices were freed in vain, for
    example because the core reserved them for another job meanwhile. No attempt is stopped a second time for such a job.
    """

    def __init__(self, rank: Callable[[SchedulingContext], PreemptionRank]) -> None:
        self._rank = rank
        self._freeing: dict[JobId, tuple[DeviceId, ...]] = {}
        self._in_vain: set[JobId] = set()

    def __call__(self, context: SchedulingContext) -> PreemptionPass:
        """The rule for one pass."""
        self._freeing = {job: devices for job, devices in self._freeing.items() if _is_freeing(context, job, devices)}
        self._in_vain = {job for job in self._in_vain if _waits(context, job)}
        return _PreemptingPass(context, self._rank(context), self._freeing, self._in_vain)


def for_priority(wanted: bool) -> Preemption:
    """Preemption for a higher priority if `wanted`. A new object for each policy, because it keeps state."""
    return Preempting(ByPriority) if wanted else no_preemption


class _Victim(NamedTuple):
    """A device that the job could have, and the attempts to stop for that; none on an idle device."""

    device: DeviceId
    residents: tuple[Attempt, ...]

    def cost(self, now: float) -> tuple[int, float]:
        """(attempts to stop, device-seconds that they have run since their last start: at most that much work is lost)."""
        return len(self.residents), sum(served_s(attempt, now) for attempt in self.residents)


class _PreemptingPass:
    def __init__(
        self,
        context: SchedulingContext,
        rank: PreemptionRank,
        freeing: dict[JobId, tuple[DeviceId, ...]],
        in_vain: set[JobId],
    ) -> None:
        self._context, self._rank, self._freeing, self._in_vain = context, rank, freeing, in_vain
        self._freeing_devices = {device for devices in freeing.values() for device in devices}
        stoppable = (a for a in context.state.attempts.values() if _may_stop(context, a))
        self._ranks: dict[AttemptId, Rank] = {a.id: rank.running(a) for a in stoppable}
        self._highest = max(self._ranks.values(), default=None)

    def starts_on_freed_devices(self) -> Iterator[Proposal]:
        for job_id, devices in list(self._freeing.items()):
            if any(self._context.state.residents.get(device) for device in devices):
                continue
            job = self._context.state.jobs[job_id]
            yield Proposal(job, tuple(self._context.snapshot(device).device for device in devices))
            if not self._context.placed(job):
                self._in_vain.add(job_id)
            del self._freeing[job_id]
            self._freeing_devices.difference_update(devices)

    def allows(self, snapshots: tuple[DeviceSnapshot, ...]) -> bool:
        return not self._freeing_devices or self._freeing_devices.isdisjoint(s.device.id for s in snapshots)

    def evictions(self, job: Job) -> Iterator[Eviction]:
        # Most jobs outrank no running attempt: this check spares them the search.
        if self._highest is None or not self._rank.waiting(job) < self._highest:
            return
        if job.id in self._freeing or job.id in self._in_vain:
            return
        victims = self._cheapest(job)
        if not any(victim.residents for victim in victims):
            return
        self._freeing[job.id] = tuple(victim.device for victim in victims)
        self._freeing_devices.update(self._freeing[job.id])
        # A gang is a resident of several devices, and is stopped once.
        for attempt in {a.id: a for victim in victims for a in victim.residents}:
            del self._ranks[attempt]
            yield Eviction(attempt, job)

    def _cheapest(self, job: Job) -> list[_Victim]:
        """The devices of one host to free for the job; empty where no host has enough that it could have.

        Within a host the cheapest devices; among hosts the one whose most expensive device is cheapest.
        """
        now, own = self._context.now, self._rank.waiting(job)
        hosts: dict[HostId, list[_Victim]] = {}
        for snapshot in self._context.snapshots:
            if self._could_have(job, own, snapshot):
                hosts.setdefault(snapshot.device.host, []).append(_Victim(snapshot.device.id, snapshot.residents))
        sorted_hosts = (sorted(host, key=lambda victim: victim.cost(now)) for host in hosts.values())
        enough = [host[: job.device_count] for host in sorted_hosts if len(host) >= job.device_count]
        return min(enough, key=lambda host: [victim.cost(now) for victim in reversed(host)], default=[])

    def _could_have(self, job: Job, own: Rank, snapshot: DeviceSnapshot) -> bool:
        """Whether the job outranks all residents of the device and would be admitted once they have gone."""
        device = snapshot.device.id
        if device in self._freeing_devices or self._context.given(device) or snapshot.reserved:
            return False
        if not all(a.id in self._ranks and own < self._ranks[a.id] for a in snapshot.residents):
            return False
        forecast = self._context.forecast_alone(job, snapshot.device)
        later = without_residents(snapshot) if snapshot.residents else snapshot
        return admit(job, forecast, later, self._context.limits).admitted


class ByPriority:
    """Rank by the priority that a job was submitted with. Ageing does not count: a job does not stop others by waiting."""

    def __init__(self, context: SchedulingContext) -> None:
        self._jobs = context.state.jobs

    def waiting(self, job: Job) -> Rank:
        """The higher the priority, the lower the rank."""
        return (-job.priority,)

    def running(self, attempt: Attempt) -> Rank:
        """The rank of its job."""
        return self.waiting(self._jobs[attempt.id.job])


class ByAttained:
    """Rank by the level of attained service, as in `order.least_attained`."""

    def __init__(self, context: SchedulingContext, thresholds_s: tuple[float, ...]) -> None:
        self._context, self._thresholds = context, thresholds_s

    def waiting(self, job: Job) -> Rank:
        """The number of thresholds passed by earlier attempts."""
        return (queue_of(job.served_s, self._thresholds),)

    def running(self, attempt: Attempt) -> Rank:
        """The number of thresholds passed by now, with the time of this attempt."""
        job = self._context.state.jobs[attempt.id.job]
        return (queue_of(job.served_s + served_s(attempt, self._context.now), self._thresholds),)


class ByLeft:
    """Rank by predicted remaining device-time. A job without a forecast stops no other, and no other stops it."""

    def __init__(self, context: SchedulingContext) -> None:
        self._sizes = Sizes(context)

    def waiting(self, job: Job) -> Rank:
        """Device-seconds left, infinite without a forecast."""
        remaining = self._sizes.remaining(job)
        return (float("inf") if remaining is None else remaining,)

    def running(self, attempt: Attempt) -> Rank:
        """Device-seconds left by now, 0 without a forecast."""
        remaining = self._sizes.remaining_of_attempt(attempt)
        return (0.0 if remaining is None else remaining,)


def _may_stop(context: SchedulingContext, attempt: Attempt) -> bool:
    job = context.state.jobs[attempt.id.job]
    return job.preemptible and job.state is JobState.RUNNING and attempt.stopping is None


def _waits(context: SchedulingContext, job_id: JobId) -> bool:
    job = context.state.jobs.get(job_id)
    return job is not None and job.state is JobState.PENDING


def _is_freeing(context: SchedulingContext, job_id: JobId, devices: tuple[DeviceId, ...]) -> bool:
    """Whether the job still waits, its devices still exist, and only attempts that are being stopped are left on them."""
    if not _waits(context, job_id):
        return False
    known = all(device in context.state.devices for device in devices)
    return known and all(a.stopping is not None for device in devices for a in context.state.residents_of(device))


def without_residents(snapshot: DeviceSnapshot) -> DeviceSnapshot:
    """The device once its residents have gone; processes that gpuq did not start stay."""
    if snapshot.reading is None:
        return snapshot
    return replace(
        snapshot, residents=(), reading=replace(snapshot.reading, used_memory=snapshot.reading.foreign_memory)
    )
