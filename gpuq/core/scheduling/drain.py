"""Which devices to drain for a job that has waited beyond its patience.

Draining keeps other jobs off devices until the residents have ended; it is what Slurm does for a job with a reservation. Chosen
are as many devices of a host as the job needs, where the fewest attempts have to end first; among those, where the youngest of
them has run the longest. The choice depends on the present state only. It is stable by itself: no job joins the chosen devices,
so they only come nearer to being empty, and others replace them only if they are nearer still.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from gpuq.core.scheduling.admit import DeviceSnapshot
from gpuq.core.scheduling.spread import cheapest_hosts
from gpuq.core.state.device import DeviceId, HostId
from gpuq.core.state.job import Job


def devices_to_drain(job: Job, snapshots: Iterable[DeviceSnapshot]) -> tuple[DeviceId, ...] | None:
    """Of these devices, which would admit the job once they are empty; sorted by id. None where too few hosts have enough."""
    hosts: dict[HostId, list[DeviceSnapshot]] = {}
    for snapshot in snapshots:
        hosts.setdefault(snapshot.device.host, []).append(snapshot)
    nearest_first = (
        sorted(found, key=lambda s: (len(s.residents), _last_launch([s]), s.device.id)) for found in hosts.values()
    )
    best = cheapest_hosts(job, nearest_first, _distance)
    return tuple(sorted(snapshot.device.id for snapshot in best)) or None


def _distance(snapshots: list[DeviceSnapshot]) -> tuple[int, float, DeviceId]:
    """How far these devices are from being empty: how many attempts have to end, then when the last of them was launched."""
    attempts = {attempt.id for snapshot in snapshots for attempt in snapshot.residents}
    return len(attempts), _last_launch(snapshots), min(snapshot.device.id for snapshot in snapshots)


def _last_launch(snapshots: list[DeviceSnapshot]) -> float:
    return max((attempt.launched_at for snapshot in snapshots for attempt in snapshot.residents), default=-inf)
