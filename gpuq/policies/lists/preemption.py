"""Which running jobs are stopped for which waiting ones: the fourth part of a list scheduler.

For a job that could not start, the cheapest set of attempts is chosen whose devices admit it once they are empty. The devices are
reserved for the job (`Eviction.devices`) until they are empty and it has been tried on them. Whether a submitter allowed
preemption is not looked at twice: `decide` stops no job that did not allow it.

Only a job that strictly outranks another may have it stopped, so that two jobs never stop each other in turn.
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
from gpuq.core.state.reservation import ReservationReason
from gpuq.policies.lists.order import Rank, queue_of
from gpuq.policies.lists.size import Sizes


class Room(Protocol):
    """The preemptions of one pass."""

    def promised(self) -> Iterator[Proposal]:
        """Jobs for which others were stopped, on the devices that have become empty."""
        ...

    def make(self, job: Job) -> Iterator[Eviction]:
        """The attempts to stop so that this job can start; none where that would not let it start."""
        ...


Preemption = Callable[[SchedulingContext], Room]


class _NoRoom:
    def promised(self) -> Iterator[Proposal]:
        return iter(())

    def make(self, job: Job) -> Iterator[Eviction]:  # noqa: ARG002 - a room
        return iter(())


def nobody(context: SchedulingContext) -> Room:  # noqa: ARG001 - every preemption is made like this
    """Nobody is stopped."""
    return _NoRoom()


class Standing(Protocol):
    """Ranks of those who wait and of those who run, in one measure; the lower may stop the higher."""

    def waiting(self, job: Job) -> Rank:
        """Of one who waits."""
        ...

    def running(self, attempt: Attempt) -> Rank:
        """Of one who runs."""
        ...


class Preempting:
    """Stops attempts that a waiting job outranks.

    Remembers the jobs for which that was in vain: the devices became empty and still did not admit the job. No attempt is stopped
    for such a job again.
    """

    def __init__(self, standing: Callable[[SchedulingContext], Standing]) -> None:
        self._standing = standing
        self._vain: set[JobId] = set()

    def __call__(self, context: SchedulingContext) -> Room:
        """The preemptions of one pass."""
        self._vain &= context.state.index.waiting.keys()
        return _Room(context, self._standing(context), self._vain)


def for_priority(wanted: bool) -> Preemption:
    """Stops for a higher priority, where the settings want that; made anew for each policy, as it remembers."""
    return Preempting(ByPriority) if wanted else nobody


class _Freed(NamedTuple):
    """A device that could be had, and at what price."""

    device: DeviceId
    residents: tuple[Attempt, ...]

    def price(self, now: float) -> tuple[int, float]:
        """An idle one first; then where the least was done since the last start, over all devices of who is stopped."""
        return len(self.residents), sum(served_s(attempt, now) for attempt in self.residents)


class _Room:
    def __init__(self, context: SchedulingContext, standing: Standing, vain: set[JobId]) -> None:
        self._context, self._standing, self._vain = context, standing, vain
        stoppable = (a for a in context.state.attempts.values() if _may_stop(context, a))
        self._ranks: dict[AttemptId, Rank] = {a.id: standing.running(a) for a in stoppable}
        self._highest = max(self._ranks.values(), default=None)

    def promised(self) -> Iterator[Proposal]:
        for job_id, reservation in list(self._context.reservations.items()):
            if reservation.reason is not ReservationReason.PREEMPTION:
                continue
            if any(self._context.state.residents.get(device) for device in reservation.devices):
                continue
            job = self._context.state.jobs[job_id]
            yield Proposal(job, tuple(self._context.state.devices[device] for device in reservation.devices))
            if not self._context.placed(job):
                self._vain.add(job_id)

    def make(self, job: Job) -> Iterator[Eviction]:
        if self._highest is None or not self._standing.waiting(job) < self._highest:
            return
        reserved = self._context.reservations.get(job.id)
        if job.id in self._vain or (reserved is not None and reserved.reason is ReservationReason.PREEMPTION):
            return
        found = self._cheapest(job)
        devices = tuple(freed.device for freed in found)
        for attempt in {a.id: a for freed in found for a in freed.residents}:
            del self._ranks[attempt]
            yield Eviction(attempt, job, devices)

    def _cheapest(self, job: Job) -> list[_Freed]:
        hosts: dict[HostId, list[_Freed]] = {}
        own = self._standing.waiting(job)
        for snapshot in self._context.snapshots:
            if self._could_have(job, own, snapshot):
                hosts.setdefault(snapshot.device.host, []).append(_Freed(snapshot.device.id, snapshot.residents))
        now = self._context.now
        sorted_hosts = (sorted(host, key=lambda freed: freed.price(now)) for host in hosts.values())
        enough = [host[: job.device_count] for host in sorted_hosts if len(host) >= job.device_count]
        return min(enough, key=lambda host: [freed.price(now) for freed in reversed(host)], default=[])

    def _could_have(self, job: Job, own: Rank, snapshot: DeviceSnapshot) -> bool:
        device = snapshot.device.id
        if self._context.given(device) or snapshot.reserved:
            return False
        if not all(a.id in self._ranks and own < self._ranks[a.id] for a in snapshot.residents):
            return False
        forecast = self._context.forecast_alone(job, snapshot.device)
        return admit(job, forecast, _emptied(snapshot), self._context.limits).admitted


class ByPriority:
    """Only the priority that a job was submitted with counts: age makes nobody stop another."""

    def __init__(self, context: SchedulingContext) -> None:
        self._jobs = context.state.jobs

    def waiting(self, job: Job) -> Rank:
        """The higher the priority, the lower the rank."""
        return (-job.priority,)

    def running(self, attempt: Attempt) -> Rank:
        """As it waited."""
        return self.waiting(self._jobs[attempt.id.job])


class ByAttained:
    """Queues of attained service, as `order.least_attained` has them."""

    def __init__(self, context: SchedulingContext, thresholds_s: tuple[float, ...]) -> None:
        self._context, self._thresholds = context, thresholds_s

    def waiting(self, job: Job) -> Rank:
        """Its queue."""
        return (queue_of(job.served_s, self._thresholds),)

    def running(self, attempt: Attempt) -> Rank:
        """Its queue by now."""
        job = self._context.state.jobs[attempt.id.job]
        return (queue_of(job.served_s + served_s(attempt, self._context.now), self._thresholds),)


class ByLeft:
    """Device-time left by the forecasts; what nobody knows stops nobody, and is stopped by nobody."""

    def __init__(self, context: SchedulingContext) -> None:
        self._sizes = Sizes(context)

    def waiting(self, job: Job) -> Rank:
        """Device-seconds left."""
        left = self._sizes.left(job)
        return (float("inf") if left is None else left,)

    def running(self, attempt: Attempt) -> Rank:
        """Device-seconds left by now."""
        left = self._sizes.left_of(attempt)
        return (0.0 if left is None else left,)


def _may_stop(context: SchedulingContext, attempt: Attempt) -> bool:
    job = context.state.jobs[attempt.id.job]
    return job.preemptible and job.state is JobState.RUNNING and attempt.stopping is None


def _emptied(snapshot: DeviceSnapshot) -> DeviceSnapshot:
    """The place once its residents have gone: only foreign processes stay."""
    if not snapshot.residents or snapshot.reading is None:
        return snapshot
    return replace(
        snapshot, residents=(), reading=replace(snapshot.reading, used_memory=snapshot.reading.foreign_memory)
    )
