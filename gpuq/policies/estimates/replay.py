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


class Queued(NamedTuple):
    """A job that needs `devices` of each of `hosts` for `duration_s`."""

    devices: int
    duration_s: float
    hosts: int = 1


class Release(NamedTuple):
    """Devices of a host that become free."""

    in_s: float
    host: HostId
    devices: int


def replay(
    free: Mapping[HostId, int], releases: Iterable[Release], queue: Sequence[Queued], *, skips: bool
) -> list[float]:
    """Seconds until each job of the queue starts, in the same order; infinity for one that never does.

    `skips`: a job that does not fit is passed by, instead of holding up those behind it.
    """
    idle, events = dict(free), list(releases)
    heapify(events)
    starts = [inf] * len(queue)
    # By how many devices of how many hosts jobs need: of each size only the first can be the next to start.
    lines: dict[tuple[int, int], deque[int]] = {}
    for number, job in enumerate(queue):
        lines.setdefault((job.devices, job.hosts), deque()).append(number)

    def start_first(hosts: Iterable[HostId], now: float) -> bool:
        """Start the first job that fits on one of the hosts; without skipping, the first of all or none."""
        heads = sorted((line[0], size) for size, line in lines.items() if line)
        for number, (devices, wanted) in heads if skips else heads[:1]:
            fitting = (host for host in (hosts if wanted == 1 else idle) if idle[host] >= devices)
            chosen = list(islice(fitting, wanted))
            if len(chosen) == wanted:
                lines[devices, wanted].popleft()
                for host in chosen:
                    idle[host] -= devices
                    heappush(events, Release(now + queue[number].duration_s, host, devices))
                starts[number] = now
                return True
        return False

    now, hosts = 0.0, list(idle)
    while True:
        # With skipping, only the host whose devices became free can take a job that could not start before.
        while start_first(hosts if skips else idle, now):
            pass
        if not events or not any(lines.values()):
            return starts
        now, host, devices = heappop(events)
        idle[host] += devices
        hosts = [host]
