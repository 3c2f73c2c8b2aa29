"""Backfill rules of a list scheduler: which jobs may start ahead of one that cannot start yet.

A rule is created for each pass. The list scheduler reports every job that could not start, in queue order, and asks for each
later candidate whether it may start on some devices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Protocol

from gpuq.core.scheduling.admit import DeviceSnapshot
from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.spread import cheapest_hosts
from gpuq.core.state.device import DeviceId, HostId
from gpuq.core.state.job import Job
from gpuq.policies.lists.size import Sizes


class BackfillPass(Protocol):
    """The rule during one pass."""

    def hold(self, job: Job) -> bool:
        """Note that this job could not start. Returns whether jobs behind it may start at all in this pass."""
        ...

    def allows(self, job: Job, snapshots: tuple[DeviceSnapshot, ...]) -> bool:
        """Whether the job may start on these devices in spite of the jobs that were held."""
        ...


Backfill = Callable[[SchedulingContext], BackfillPass]


class _Skip:
    """Any job may start ahead. The core's reservations still protect a job that has waited too long."""

    def __init__(self, context: SchedulingContext) -> None:
        self._context = context

    def hold(self, job: Job) -> bool:  # noqa: ARG002 - the protocol's signature
        return True

    def allows(self, job: Job, snapshots: tuple[DeviceSnapshot, ...]) -> bool:  # noqa: ARG002 - the protocol's signature
        return True

    def _fits_some_day(self, job: Job) -> bool:
        return self._context.cache.never_fits(job) is None


class _Strict(_Skip):
    """No job starts ahead of one that cannot start yet, unless that one can never start on this cluster."""

    def hold(self, job: Job) -> bool:
        # A job that fits no device of this cluster would block the queue for ever.
        return not self._fits_some_day(job)


class _Easy(_Skip):
    """EASY backfilling (Lifka 1995): a reservation for the first job that cannot start, one per pass.

    Others may use the reserved devices only if they end before it begins. In place of requested wall-clock times it uses the
    90th percentiles of the forecasts.
    """

    _reserved: frozenset[DeviceId] | None = None
    _free_at = inf

    def hold(self, job: Job) -> bool:
        if self._reserved is None and self._fits_some_day(job):
            self._reserve(job)
        return True

    def allows(self, job: Job, snapshots: tuple[DeviceSnapshot, ...]) -> bool:
        """A job may use reserved devices only if its 90th percentile ends before the reservation begins."""
        if not self._reserved or not any(snapshot.device.id in self._reserved for snapshot in snapshots):
            return True
        duration = self._context.cache.duration(job)
        return duration is not None and self._free_at < inf and self._context.now + duration[1] <= self._free_at

    def _reserve(self, head: Job) -> None:
        """Reserve those devices that will be free first, by the 90th percentiles of what runs there."""
        context, sizes = self._context, Sizes(self._context)

        def free_at(snapshot: DeviceSnapshot) -> float:
            ends = [sizes.ends_at(attempt) for attempt in snapshot.residents]
            if newcomer := context.given_to(snapshot.device.id):
                ends.append(sizes.ends_if_started(newcomer, snapshot))
            return max((inf if end is None else end for end in ends), default=context.now)

        hosts: dict[HostId, list[tuple[float, DeviceId]]] = {}
        for snapshot in context.snapshots:
            if context.could_serve(head, snapshot.device.id):
                hosts.setdefault(snapshot.device.host, []).append((free_at(snapshot), snapshot.device.id))
        first = (sorted(host) for host in hosts.values())
        soonest = cheapest_hosts(head, first, lambda devices: (devices[-1][0], devices[0][1]))
        self._reserved = frozenset(device for _, device in soonest)
        self._free_at = max((at for at, _ in soonest), default=inf)


skip: Backfill = _Skip
strict: Backfill = _Strict
easy: Backfill = _Easy
NAMED: Mapping[str, Backfill] = {"skip": skip, "strict": strict, "easy": easy}
