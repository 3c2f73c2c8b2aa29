"""Start-time estimates in a simulation: right where durations are known, and the same each time."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from gpuq.core.scheduling.cache import PassCache
from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.policy import Eviction, Proposal
from gpuq.core.state.booking import Booking, BookingId
from gpuq.core.state.constraints import DeviceConstraints
from gpuq.core.state.device import Device, DeviceId, HostId
from gpuq.core.state.events import BookingMade, QuotaSet, Submitted
from gpuq.core.state.job import JobId
from gpuq.core.state.quota import Account, Quota, QuotaScope
from gpuq.policies.estimates.calibration import StartEstimate
from gpuq.policies.estimates.estimator import StartTimeEstimator
from gpuq.policies.lists.packed import packed
from gpuq.sim.candidate import Candidate
from gpuq.sim.forecaster import Cold, Oracle
from gpuq.sim.run import simulate
from gpuq.sim.trace import JobArrival, Trace
from gpuq.sim.world import Workload, World
from tests.support.nouns import a_device, a_forecast, a_job, a_report
from tests.support.playbook import Playbook

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


def estimated(play: Playbook) -> dict[int, StartEstimate]:
    context = SchedulingContext(play.state, play.known, PassCache(), play.limits, play.now)
    return {int(job): one for job, one in StartTimeEstimator().estimate(context, context.waiting).items()}


def one_running_for_an_hour(*devices: Device) -> Playbook:
    """A job on the first device; it and all others take an hour."""
    play = Playbook().forecast("kind", a_forecast(90, 8, duration_p50_s=HOUR, duration_p90_s=HOUR))
    return play.happen(a_report(*devices), Submitted(a_job(1, constraints=only(devices[0])))).settle()


def only(device: Device) -> DeviceConstraints:
    return DeviceConstraints(devices=(device.id,))


def test_a_job_that_may_have_one_device_waits_for_that_one() -> None:
    busy, idle = a_device("a"), a_device("b")
    play = one_running_for_an_hour(busy, idle).happen(Submitted(a_job(2, constraints=only(busy)))).settle()

    assert estimated(play)[2].p50_s == pytest.approx(HOUR, rel=0.01)


def test_a_booked_device_is_free_once_the_booking_is_over() -> None:
    play = one_running_for_an_hour(a_device("a"))
    booking = Booking(BookingId(1), "bob", "bob", (DeviceId("a"),), play.now + 600.0, play.now + 5 * HOUR)
    play.happen(BookingMade(booking), Submitted(a_job(2))).settle()

    assert estimated(play)[2].p50_s == pytest.approx(5 * HOUR, rel=0.01)


def test_jobs_that_wait_for_those_before_them_in_a_quota_have_no_estimate() -> None:
    play = one_running_for_an_hour(a_device("a"))
    account = Account(QuotaScope.USER, "ada")
    play.happen(QuotaSet(Quota(account, running_devices=2), "root"), *(Submitted(a_job(n)) for n in (2, 3))).settle()

    found = estimated(play)
    assert found[2].p50_s == pytest.approx(HOUR, rel=0.01)
    assert found[3].p50_s == float("inf")
