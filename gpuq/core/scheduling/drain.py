"""Which devices to drain for a job that has waited beyond its patience.

Draining keeps other jobs off devices until the residents have ended; it is what Slurm does for a job with a reservation. Chosen
are as many devices of a host as the job needs: those that are expected to be empty clearly sooner than others; among equals,
where the fewest attempts have to end first; among those, where the youngest of them has run the longest. The choice depends on
the present state and the time only. Who keeps to an earlier one, and for how long, says `reservations`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import floor, inf, log2

from gpuq.core.scheduling.admit import DeviceSnapshot
from gpuq.core.scheduling.spread import cheapest_hosts
from gpuq.core.state.attempt import Attempt
from gpuq.core.state.device import DeviceId, HostId
from gpuq.core.state.job import Job

# Forecasts of durations are rough, and what ends within half an hour is near.
_NEAR_S = 1800.0
Remaining = Callable[[Attempt], float]


def devices_to_drain(
    job: Job, snapshots: Iterable[DeviceSnapshot], remaining: Remaining = lambda _: 0.0
) -> tuple[DeviceId, ...] | None:
    """Of these devices, which would admit the job once they are empty; sorted by id. None where too few hosts have enough.
    `remaining`: for how many seconds an attempt is expected to run on."""
    hosts: dict[HostId, list[DeviceSnapshot]] = {}
    for snapshot in snapshots:
        hosts.setdefault(snapshot.device.host, []).append(snapshot)
    best = cheapest_hosts(
        job,
        (sorted(found, key=lambda s: _distance([s], remaining)) for found in hosts.values()),
        lambda found: _distance(found, remaining),
    )
    return tuple(sorted(snapshot.device.id for snapshot in best)) or None


def is_clearly_less(seconds: float, others: float) -> bool:
    """Whether one expected duration is less than another by about a factor of two, and the other is not near."""
    return _magnitude(seconds) < _magnitude(others)


def _magnitude(seconds: float) -> float:
    return inf if seconds == inf else max(0, floor(log2(max(seconds, 1.0) / _NEAR_S)) + 1)


def remaining_s(attempt: Attempt, job: Job, now: float) -> float:
    """For how many seconds an attempt of this job is expected to run on. Where nothing is known: as long again as it has run."""
    known_s = known_remaining_s(attempt, job, now)
    return _age_s(attempt, now) if known_s is None else known_s


def known_remaining_s(attempt: Attempt, job: Job, now: float) -> float | None:
    """The same; past its median an attempt counts as one of the long ones, and past its 90th percentile nothing is known."""
    if attempt.stopping is not None:
        return 0.0
    served_s = _age_s(attempt, now) + job.served_s / len(attempt.devices)
    percentiles = (attempt.forecast.duration_p50_s, attempt.forecast.duration_p90_s)
    left_s = next((whole - served_s for whole in percentiles if whole is not None and whole > served_s), None)
    limit_s = None if attempt.time_limit_s is None else max(0.0, attempt.time_limit_s - _age_s(attempt, now))
    return left_s if left_s is None or limit_s is None else min(left_s, limit_s)


def _age_s(attempt: Attempt, now: float) -> float:
    return max(0.0, now - attempt.began_at)


def _distance(snapshots: list[DeviceSnapshot], remaining: Remaining) -> tuple[float, int, float, DeviceId]:
    """How far these devices are from being empty: for how long, how many attempts have to end, when the last of them was
    launched."""
    attempts = {attempt.id: attempt for snapshot in snapshots for attempt in snapshot.residents}
    longest_s = max(map(remaining, attempts.values()), default=0.0)
    last_launch = max((attempt.launched_at for attempt in attempts.values()), default=-inf)
    return _magnitude(longest_s), len(attempts), last_launch, min(snapshot.device.id for snapshot in snapshots)
