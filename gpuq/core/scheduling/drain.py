"""Which devices to keep free for a job that waited too long, so that small jobs cannot starve it, nor a gang.

As many devices of one host as the job needs, where the fewest attempts have to end first; among those, where the youngest of them
has run the longest. What is chosen depends on the present only and holds by itself: nobody joins the devices chosen, so that they
only come nearer to being free, and others are chosen only if they are nearer still. With every end there are fewer to wait for.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from gpuq.core.scheduling.admit import DeviceSnapshot
from gpuq.core.state.device import DeviceId, HostId
from gpuq.core.state.job import Job


def drained(job: Job, snapshots: Iterable[DeviceSnapshot]) -> frozenset[DeviceId] | None:
    """The devices to keep; None where no host has enough that would do for this job if nobody were there."""
    hosts: dict[HostId, list[DeviceSnapshot]] = {}
    for snapshot in snapshots:
        if _would_do(job, snapshot):
            hosts.setdefault(snapshot.device.host, []).append(snapshot)
    gangs = [_soonest(found, job.device_count) for found in hosts.values() if len(found) >= job.device_count]
    best = min(gangs, key=_distance, default=None)
    return None if best is None else frozenset(snapshot.device.id for snapshot in best)


def _soonest(snapshots: list[DeviceSnapshot], count: int) -> list[DeviceSnapshot]:
    return sorted(snapshots, key=lambda snapshot: (len(snapshot.residents), _youngest([snapshot]), snapshot.device.id))[
        :count
    ]


def _distance(snapshots: list[DeviceSnapshot]) -> tuple[int, float, DeviceId]:
    attempts = {attempt.id for snapshot in snapshots for attempt in snapshot.residents}
    return len(attempts), _youngest(snapshots), min(snapshot.device.id for snapshot in snapshots)


def _youngest(snapshots: list[DeviceSnapshot]) -> float:
    """When the last of those started who are there."""
    return max((attempt.launched_at for snapshot in snapshots for attempt in snapshot.residents), default=-inf)


def _would_do(job: Job, snapshot: DeviceSnapshot) -> bool:
    """Whether the job could have the device if only foreign processes were there. One that is not known runs alone, beside no
    foreign memory worth speaking of; that is left to admission."""
    foreign = snapshot.reading.foreign_memory if snapshot.reading else None
    return foreign is not None and (job.declared_memory or 0) + foreign <= snapshot.device.total_memory
