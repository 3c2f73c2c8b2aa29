"""How long jobs wait on the whole: the M/G/k queue, approximated.

Arrives: how often jobs come and how long they take, as rates and as means with squared coefficients of variation (variance over
the square of the mean; 1 for an exponential). Leaves: a probability, a mean wait in seconds. It knows nothing of who waits now;
`waiting.py` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from statistics import fmean, pvariance


def erlang_c(servers: int, offered: float) -> float:
    """The share of arrivals that must wait in M/M/k; `offered` is arrival rate times mean service, in servers.

    By the recursion of Erlang B, which stays within 0 and 1 (any textbook, as Kleinrock, Queueing Systems I, 1975). 1 where the
    servers cannot keep up.
    """
    if offered >= servers:
        return 1.0
    blocked = 1.0
    for server in range(1, servers + 1):
        blocked = offered * blocked / (server + offered * blocked)
    return blocked / (1 - offered / servers * (1 - blocked))


def mean_wait_s(
    servers: int, arrivals_per_s: float, service_s: float, arrival_scv: float = 1.0, service_scv: float = 1.0
) -> float:
    """The mean wait in GI/G/k, after Allen and Cunneen: (Ca² + Cs²) / 2 times that of M/M/k (Allen, Probability, Statistics and
    Queueing Theory, 2nd ed. 1990). Exact for M/M/k, and for one server with Poisson arrivals (Pollaczek and Khinchine). Infinite
    where the servers cannot keep up."""
    offered = arrivals_per_s * service_s
    if offered >= servers:
        return inf
    return (arrival_scv + service_scv) / 2 * erlang_c(servers, offered) * service_s / (servers - offered)


@dataclass(frozen=True, slots=True)
class Traffic:
    """What came: rates per second, seconds, and squared coefficients of variation. `devices` is how many a job takes, on average
    over the time they are taken."""

    arrivals_per_s: float
    service_s: float
    arrival_scv: float
    service_scv: float
    devices: float

    def mean_wait_s(self, devices: int) -> float:
        """On so many devices, taken as servers that each are as many as a job takes."""
        servers = max(1, round(devices / self.devices))
        return mean_wait_s(servers, self.arrivals_per_s, self.service_s, self.arrival_scv, self.service_scv)


def observed(arrivals: Sequence[tuple[float, float, int]]) -> Traffic | None:
    """The traffic of (submitted at, service in seconds, devices), in the order of submission; None of fewer than three, or of
    such as all came at once or took no time."""
    if len(arrivals) < 3:
        return None
    gaps = [after[0] - before[0] for before, after in pairwise(arrivals)]
    services = [service for _, service, _ in arrivals]
    gap, service = fmean(gaps), fmean(services)
    if gap <= 0 or service <= 0:
        return None
    return Traffic(
        arrivals_per_s=1 / gap,
        service_s=service,
        arrival_scv=pvariance(gaps, gap) / gap**2,
        service_scv=pvariance(services, service) / service**2,
        devices=sum(taken * devices for _, taken, devices in arrivals) / sum(services),
    )
