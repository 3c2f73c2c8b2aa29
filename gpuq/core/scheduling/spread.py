"""Over which hosts a job is spread, where each host has some devices that it could have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import nsmallest
from typing import Any, TypeVar

from gpuq.core.state.job import Job

T = TypeVar("T")


def cheapest_hosts(job: Job, hosts: Iterable[list[T]], cost: Callable[[list[T]], Any]) -> list[T]:
    """The first devices of each of as many hosts as the job needs, of the hosts where these cost least; empty where too few hosts
    have enough. Each host is given by its devices, the best first."""
    enough = [devices[: job.per_host] for devices in hosts if len(devices) >= job.per_host]
    if len(enough) < job.host_count:
        return []
    return [device for devices in nsmallest(job.host_count, enough, key=cost) for device in devices]
