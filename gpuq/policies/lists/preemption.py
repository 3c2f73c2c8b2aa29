"""Preemption rules of a list scheduler: which running attempts to stop so that a waiting job can start.

Attempts are stopped only where the job could then start. The freed devices are reserved for it (`Eviction.devices`) until they
are empty and it has been tried on them, since a stopped attempt needs time to save its work. A job stops only attempts that it
strictly outranks, so two jobs never stop each other in turn. The core refuses evictions of jobs that were not submitted as
preemptible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, Protocol

from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.policy import Eviction, Proposal
from gpuq.core.scheduling.spread import cheapest_hosts
from gpuq.core.state.attempt import Attempt, AttemptId, served_s
from gpuq.core.state.device import DeviceId, HostId
from gpuq.core.state.job import Job, JobState
from gpuq.core.state.reservation import ReservationReason
from gpuq.policies.lists.order import Rank, aged_priority
from gpuq.settings import Scheduling


class PreemptionPass(Protocol):
    """The rule during one pass."""

    def starts_on_freed_devices(self) -> Iterator[Proposal]:
        """Starts of jobs for which others were stopped in earlier passes, where the devices are empty by now."""
        ...

    def evictions(self, job: Job) -> Iterator[Eviction]:
        """The attempts to stop so that this job can start; none where no set of them would do."""
        ...


Preemption = Callable[[SchedulingContext], PreemptionPass]


class _NoPreemption:
    def __init__(self, context: SchedulingContext) -> None:
        """It needs nothing of the pass."""

    def starts_on_freed_devices(self) -> Iterator[Proposal]:
        return iter(())

    def evictions(self, job: Job) -> Iterator[Eviction]:  # noqa: ARG002 - the protocol's signature
        return iter(())


no_preemption: Preemption = _NoPreemption


class PreemptionRank(Protocol):
    """Ranks of waiting and running jobs on one scale. A waiting job may stop attempts of a higher rank than its own."""

    def waiting(self, job: Job) -> Rank:
        """The rank of a waiting job."""
        ...

    def running(self, attempt: Attempt) -> Rank:
        """The rank of a running attempt."""
        ...


def preempting(rank: Callable[[SchedulingContext], PreemptionRank]) -> Preemption:
    """Preemption that stops attempts which a waiting job outranks."""
    return lambda context: _PreemptingPass(context, rank(context))


def for_priority(scheduling: Scheduling) -> Preemption:
    """Preemption for a higher priority, if it is wanted."""
    if not scheduling.preemption:
        return no_preemption
    return preempting(lambda context: ByPriority(context, scheduling.ageing_s))


class _Victim(NamedTuple):
    """A device that the job could have, and the attempts to stop for that; none on an idle device."""

    device: DeviceId
    residents: tuple[Attempt, ...]

    def cost(self, ranks: Mapping[AttemptId, Rank], now: float) -> tuple[Rank, int, float]:
        """(how urgent the most urgent of them is, attempts to stop, device-seconds that they have run since their last start: at
        most that much work is lost)."""
        urgent = min((ranks[attempt.id] for attempt in self.residents), default=())
        served = sum(served_s(attempt, now) for attempt in self.residents)
        return tuple(-part for part in urgent), len(self.residents), served


class _PreemptingPass:
    def __init__(self, context: SchedulingContext, rank: PreemptionRank) -> None:
        self._context, self._rank = context, rank
        jobs = context.state.jobs
        self._ranks: dict[AttemptId, Rank] = {}
        for attempt in context.state.attempts.values():
            job = jobs[attempt.id.job]
            if job.preemptible and job.state is JobState.RUNNING and attempt.stopping is None:
                self._ranks[attempt.id] = rank.running(attempt)
        self._highest = max(self._ranks.values(), default=None)

    def starts_on_freed_devices(self) -> Iterator[Proposal]:
        for job_id, reservation in list(self._context.reservations.items()):
            if reservation.reason is not ReservationReason.PREEMPTION:
                continue
            if any(self._context.state.residents.get(device) for device in reservation.devices):
                continue
            job = self._context.state.jobs[job_id]
            yield Proposal(job, tuple(self._context.state.devices[device] for device in reservation.devices))

    def evictions(self, job: Job) -> Iterator[Eviction]:
        # Most jobs outrank no running attempt: this check spares them the search.
        if self._highest is None or not self._rank.waiting(job) < self._highest or self._context.over_quota(job):
            return
        reserved = self._context.reservations.get(job.id)
        if reserved is not None and reserved.reason is ReservationReason.PREEMPTION:
            return
        victims = self._cheapest(job)
        devices = tuple(victim.device for victim in victims)
        # A gang is a resident of several devices, and is stopped once.
        for attempt in {a.id: a for victim in victims for a in victim.residents}:
            del self._ranks[attempt]
            yield Eviction(attempt, job, devices)

    def _cheapest(self, job: Job) -> list[_Victim]:
        """The devices to free for the job, of as many hosts as it runs on; empty where too few have enough that it could have.

        It could have those of which it outranks all residents, and where it would be admitted once they have gone. Within a host
        the cheapest devices; among hosts the one whose most expensive device is cheapest.
        """
        context, own = self._context, self._rank.waiting(job)
        hosts: dict[HostId, list[_Victim]] = {}
        for snapshot in context.snapshots:
            device = snapshot.device.id
            outranked = all(a.id in self._ranks and own < self._ranks[a.id] for a in snapshot.residents)
            if outranked and not context.given(device) and context.could_serve(job, device):
                hosts.setdefault(snapshot.device.host, []).append(_Victim(snapshot.device.id, snapshot.residents))

        def cost(victim: _Victim) -> tuple[Rank, int, float]:
            return victim.cost(self._ranks, context.now)

        sorted_hosts = (sorted(host, key=cost) for host in hosts.values())
        return cheapest_hosts(job, sorted_hosts, lambda host: [cost(victim) for victim in reversed(host)])


class ByPriority:
    """Rank by the priority that a job was submitted with: a job does not stop others by waiting.

    A running job keeps what it had gained by waiting when it was started. Otherwise those that it was started before would stop
    it at once, and it would be started and stopped for ever.
    """

    def __init__(self, context: SchedulingContext, ageing_s: float) -> None:
        self._jobs, self._ageing_s = context.state.jobs, ageing_s

    def waiting(self, job: Job) -> Rank:
        """The higher the priority, the lower the rank."""
        return (-job.priority,)

    def running(self, attempt: Attempt) -> Rank:
        """Rank by the priority that its job had at its start, by age or by devices that were reserved for it."""
        aged = aged_priority(self._jobs[attempt.id.job], attempt.launched_at, self._ageing_s)
        return (-(aged if attempt.ahead_of is None else max(aged, attempt.ahead_of)),)
