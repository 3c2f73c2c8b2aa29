"""The queue played forward: when each waiting job starts if every job lasts as long as given.

Jobs start in the order of the queue, each on equally many devices of as many hosts as it needs. Not modelled: jobs that are yet
to come, sharing a device, failures, preemption, and any backfill but passing by what does not fit. The calibration factor covers
what these change on the whole. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import islice
from math import inf
from typing import NamedTuple

from gpuq.core.state.device import HostId


class DevicePool(NamedTuple):
    """Devices of a host that the same jobs may have. `meets`: numbers of the constraints that they meet."""

    host: HostId
    meets: tuple[int, ...] = ()


class Queued(NamedTuple):
    """A job that needs `devices` of each of `hosts` for `duration_s`: any, or those that meet the constraint of this number."""

    devices: int
    duration_s: float
    hosts: int = 1
    constraint: int | None = None


class Release(NamedTuple):
    """Devices that become free."""

    in_s: float
    pool: DevicePool
    devices: int


def replay(
    free: Mapping[DevicePool, int], releases: Iterable[Release], queue: Sequence[Queued], *, skips: bool
) -> list[float]:
    """Seconds until each job of the queue starts, in the same order; infinity for one that never does.

    `skips`: a job that does not fit is passed by, instead of holding up those behind it.
    """
    run, now = _Run(free, releases, queue, skips), 0.0
    hosts = list(run.idle)
    while True:
        # With skipping, only the host whose devices became free can take a job that could not start before.
        while run.start_first(hosts if skips else run.idle, now):
            pass
        if not run.events or not any(run.lines.values()):
            return run.starts
        now, pool, devices = heappop(run.events)
        run.idle[pool.host][pool] += devices
        hosts = [pool.host]


class _Run:
    """`idle`: the devices that are free now, by host. `lines`: the jobs that wait, by what they need: of those that need the same
    only the first can be the next to start."""

    def __init__(
        self, free: Mapping[DevicePool, int], releases: Iterable[Release], queue: Sequence[Queued], skips: bool
    ) -> None:
        self._queue, self._skips = queue, skips
        self.events = list(releases)
        heapify(self.events)
        self.idle: dict[HostId, dict[DevicePool, int]] = {}
        for pool, count in (*dict.fromkeys((release.pool for release in self.events), 0).items(), *free.items()):
            self.idle.setdefault(pool.host, {})[pool] = count
        self.starts = [inf] * len(queue)
        self.lines: dict[tuple[int, int, int | None], deque[int]] = {}
        for number, job in enumerate(queue):
            self.lines.setdefault((job.devices, job.hosts, job.constraint), deque()).append(number)

    def start_first(self, hosts: Iterable[HostId], now: float) -> bool:
        """Start the first job that fits on one of the hosts; without skipping, the first of all or none."""
        heads = sorted((line[0], needs) for needs, line in self.lines.items() if line)
        for number, needs in heads if self._skips else heads[:1]:
            job = self._queue[number]
            each = (self._pools_for(job, host) for host in (hosts if job.hosts == 1 else self.idle))
            chosen = list(islice(filter(None, each), job.hosts))
            if len(chosen) == job.hosts:
                self.lines[needs].popleft()
                self.starts[number] = now
                for pools in chosen:
                    self._take(job, pools, now)
                return True
        return False

    def _pools_for(self, job: Queued, host: HostId) -> list[DevicePool]:
        """The pools of a host that together have devices for the job, first those that meet the fewest constraints; none where
        they have too few."""
        idle = self.idle[host]
        fitting = [pool for pool in idle if job.constraint is None or job.constraint in pool.meets]
        enough = sum(idle[pool] for pool in fitting) >= job.devices
        return sorted(fitting, key=lambda pool: (len(pool.meets), pool)) if enough else []

    def _take(self, job: Queued, pools: Iterable[DevicePool], now: float) -> None:
        wanted = job.devices
        for pool in pools:
            taken = min(wanted, self.idle[pool.host][pool])
            if taken:
                self.idle[pool.host][pool] -= taken
                heappush(self.events, Release(now + job.duration_s, pool, taken))
                wanted -= taken
