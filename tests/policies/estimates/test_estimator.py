"""Start-time estimates in a simulation: right where durations are known, and the same each time."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.policy import Eviction, Proposal
from gpuq.core.state.device import Device, DeviceId, HostId
from gpuq.core.state.job import JobId
from gpuq.policies.estimates.calibration import StartEstimate
from gpuq.policies.estimates.estimator import StartTimeEstimator
from gpuq.policies.lists.packed import packed
from gpuq.sim.candidate import Candidate
from gpuq.sim.forecaster import Cold, Oracle
from gpuq.sim.run import simulate
from gpuq.sim.trace import JobArrival, Trace
from gpuq.sim.world import Workload, World

HOUR = 3600.0
WORLD = World(
    "two",
    tuple(Device(DeviceId(f"d{n}"), HostId("h"), "sim", "P100", 2**34) for n in range(2)),
    {"w": Workload("w", "w", 8, 100.0)},
    {"w": "w"},
    {},
)


@dataclass
class Estimating:
    """The default policy; `estimates` has the first estimate of each job."""

    estimator: StartTimeEstimator = field(default_factory=StartTimeEstimator)
    estimates: dict[JobId, StartEstimate] = field(default_factory=dict)

    def __call__(self, context: SchedulingContext) -> Iterator[Proposal | Eviction]:
        yield from packed(context)
        self.estimator.observe(context)
        found = self.estimator.estimate(context, context.waiting)
        self.estimator.remember(context.waiting, found, context.now)
        self.estimates = found | self.estimates


def simulated(
    *arrivals: JobArrival, cold: bool = False, patience_s: float = 1e9
) -> tuple[dict[JobId, StartEstimate], dict[JobId, float]]:
    """The first estimate of each job, and its wait."""
    policy = Estimating()
    limits = Limits(residents_per_device=1, patience_s=patience_s, patience_ratio=0.0)
    candidate = Candidate("packed", policy, limits)
    run = simulate(Trace("trace", arrivals), WORLD, Cold() if cold else Oracle(WORLD), candidate)
    return policy.estimates, {job.arrival.job: (job.first_started_at or 0.0) - job.arrival.submit_s for job in run.jobs}


def arrival(number: int, at: float, hours: float = 1.0, devices: int = 1) -> JobArrival:
    return JobArrival(JobId(number), at * HOUR, hours * HOUR, devices, "w", "ada")


def test_with_all_devices_taken_the_estimate_is_when_something_ends() -> None:
    estimates, waited = simulated(
        arrival(1, 0.0, 3.0), arrival(2, 0.0, 5.0), arrival(3, 1.0), arrival(4, 1.0, devices=2)
    )
    assert waited[JobId(3)] == 2 * HOUR
    for job in (JobId(3), JobId(4)):  # the rest of a forecast that has held so far is longer than the forecast says
        assert estimates[job].p50_s == pytest.approx(waited[job], rel=0.5)
        assert estimates[job].p90_s >= waited[job]


def test_an_idle_device_that_is_reserved_is_promised_to_no_other_job() -> None:
    """Nor may job 4 have it before the gang, for which the other device is busy: it takes longer than that."""
    gang = arrival(3, 0.1, devices=2)
    last = arrival(4, 3.0, 7.0)
    estimates, waited = simulated(arrival(1, 0.0, 9.0), arrival(2, 0.0, 2.0), gang, last, patience_s=HOUR)
    assert waited[JobId(4)] == 7 * HOUR
    assert estimates[JobId(4)].p50_s > 2 * HOUR


def test_without_forecasts_there_is_an_estimate_without_evidence() -> None:
    estimates, _ = simulated(arrival(1, 0.0), arrival(2, 0.0), arrival(3, 0.1), cold=True)
    assert 0 < estimates[JobId(3)].p50_s < estimates[JobId(3)].p90_s
    assert not estimates[JobId(3)].has_evidence


def test_forecasts_of_all_that_run_and_go_before_are_evidence() -> None:
    estimates, _ = simulated(arrival(1, 0.0), arrival(2, 0.0), arrival(3, 0.1), arrival(4, 0.1))
    assert estimates[JobId(3)].has_evidence
    assert estimates[JobId(4)].has_evidence


def test_the_same_contexts_give_the_same_estimates() -> None:
    arrivals = [arrival(n, 0.2 * n, 0.5 + 0.1 * n) for n in range(1, 15)]
    assert simulated(*arrivals)[0] == simulated(*arrivals)[0]
