"""Who may go ahead of a job that cannot start yet: the second part of a policy out of parts.

A backfill makes a gate for each pass. The gate is told of each job that could not start, in order, and then says whether
anybody may still go, and where. Ignores who is first: that is the order's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Protocol

from gpuq.core.scheduling.admit import DeviceSnapshot, fits_ever
from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.state.device import DeviceId, HostId
from gpuq.core.state.job import Job
from gpuq.policies.lists.size import Sizes


class BackfillPass(Protocol):
    """One pass's answer to who may go ahead."""

    def hold(self, job: Job) -> bool:
        """This job, the first of those left, could not start. Returns whether anybody after it may go at all."""
        ...

    def allows(self, job: Job, snapshots: tuple[DeviceSnapshot, ...]) -> bool:
        """Whether this job may have these places, for all that those before it want."""
        ...


Backfill = Callable[[SchedulingContext], BackfillPass]


class _Skip:
    def hold(self, job: Job) -> bool:  # noqa: ARG002 - a gate
        return True

    def allows(self, job: Job, snapshots: tuple[DeviceSnapshot, ...]) -> bool:  # noqa: ARG002 - a gate
        return True


class _Strict(_Skip):
    def __init__(self, context: SchedulingContext) -> None:
        self._context = context

    def hold(self, job: Job) -> bool:
        return not _fits_some_day(self._context, job)


class _Easy(_Skip):
    def __init__(self, context: SchedulingContext) -> None:
        self._context = context
        self._kept: frozenset[DeviceId] | None = None
        self._free_at = inf

    def hold(self, job: Job) -> bool:
        if self._kept is None and _fits_some_day(self._context, job):
            self._keep_for(job)
        return True

    def allows(self, job: Job, snapshots: tuple[DeviceSnapshot, ...]) -> bool:
        if not self._kept or not any(snapshot.device.id in self._kept for snapshot in snapshots):
            return True
        duration = self._sizes.duration(job)
        return duration is not None and self._free_at < inf and self._context.now + duration[1] <= self._free_at

    def _keep_for(self, head: Job) -> None:
        """The devices of one host that will be free first, and when: nine times in ten, by the forecasts."""
        self._sizes = Sizes(self._context)
        hosts: dict[HostId, list[tuple[float, DeviceId]]] = {}
        for snapshot in self._context.snapshots:
            if snapshot.reading is not None and (head.declared_memory or 0) <= snapshot.device.total_memory:
                hosts.setdefault(snapshot.device.host, []).append((self._free(snapshot), snapshot.device.id))
        first = [sorted(host)[: head.device_count] for host in hosts.values() if len(host) >= head.device_count]
        soonest = min(first, key=lambda devices: (devices[-1][0], devices[0][1]), default=[])
        self._kept = frozenset(device for _, device in soonest)
        self._free_at = soonest[-1][0] if soonest else inf

    def _free(self, snapshot: DeviceSnapshot) -> float:
        """When nobody will be there; a device given in this pass is one whose newcomer's end is not known."""
        if self._context.given(snapshot.device.id):
            return inf
        ends = [self._sizes.ends_at(attempt) for attempt in snapshot.residents]
        return max((inf if end is None else end for end in ends), default=self._context.now)


def skip(context: SchedulingContext) -> BackfillPass:  # noqa: ARG001 - every backfill is made like this
    """What cannot start holds up nobody; the core keeps devices for one that has waited too long."""
    return _Skip()


def strict(context: SchedulingContext) -> BackfillPass:
    """Nobody goes ahead of one that cannot start yet, unless that one can never start."""
    return _Strict(context)


def easy(context: SchedulingContext) -> BackfillPass:
    """The first that cannot start gets a reservation: the devices of one host that will be free first. Others may have these
    only if nine times in ten they end before (EASY backfilling, Lifka 1995, with forecasts for wall-clock requests)."""
    return _Easy(context)


NAMED: Mapping[str, Backfill] = {"skip": skip, "strict": strict, "easy": easy}


def _fits_some_day(context: SchedulingContext, job: Job) -> bool:
    return fits_ever(job.declared_memory, job.device_count, list(context.state.devices.values())) is None
