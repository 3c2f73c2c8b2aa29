"""Start times told from the board, watched in a simulation: right where durations are known, and the same each time."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from gpuq.core.scheduling.context import SchedulingContext
from gpuq.core.scheduling.limits import Limits
from gpuq.core.scheduling.policy import Eviction, Proposal
from gpuq.core.state.device import Device, DeviceId, HostId
from gpuq.core.state.job import JobId
from gpuq.policies.estimates.estimator import Teller
from gpuq.policies.estimates.waiting import ExpectedStart
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
class Listening:
    teller: Teller = field(default_factory=Teller)
    told: dict[JobId, ExpectedStart] = field(default_factory=dict)
    traffic: float | None = None

    def __call__(self, context: SchedulingContext) -> Iterator[Proposal | Eviction]:
        yield from packed(context)
        for job, start in self.teller.look(context).items():
            self.told.setdefault(job, start)
        if (traffic := self.teller.traffic()) is not None:
            self.traffic = traffic.arrivals_per_s


def listen(*arrivals: JobArrival, cold: bool = False, patience_s: float = 1e9) -> tuple[Listening, dict[JobId, float]]:
    policy = Listening()
    limits = Limits(residents_per_device=1, patience_s=patience_s, patience_ratio=0.0)
    candidate = Candidate("packed", policy, limits)
    run = simulate(Trace("told", arrivals), WORLD, Cold() if cold else Oracle(WORLD), candidate)
    return policy, {job.arrival.job: (job.first_started_at or 0.0) - job.arrival.submit_s for job in run.jobs}


def arrival(number: int, at: float, hours: float = 1.0, devices: int = 1) -> JobArrival:
    return JobArrival(JobId(number), at * HOUR, hours * HOUR, devices, "w", "ada")


def test_who_comes_while_all_is_taken_is_told_when_something_ends() -> None:
    heard, waited = listen(arrival(1, 0.0, 3.0), arrival(2, 0.0, 5.0), arrival(3, 1.0), arrival(4, 1.0, devices=2))
    assert waited[JobId(3)] == 2 * HOUR
    for job in (JobId(3), JobId(4)):  # forecasts that nothing has shown to be right are not quite believed
        assert heard.told[job].p50_s == pytest.approx(waited[job], rel=0.5)
        assert heard.told[job].p90_s >= waited[job]


def test_an_idle_device_that_is_kept_for_one_who_waited_too_long_is_promised_to_nobody_else() -> None:
    gang = arrival(3, 0.1, devices=2)
    heard, waited = listen(arrival(1, 0.0, 9.0), arrival(2, 0.0, 2.0), gang, arrival(4, 3.0), patience_s=HOUR)
    assert waited[JobId(4)] == 7 * HOUR
    assert heard.told[JobId(4)].p50_s > 2 * HOUR


def test_while_nothing_is_known_an_hour_is_as_good_as_any() -> None:
    heard, _ = listen(arrival(1, 0.0), arrival(2, 0.0), arrival(3, 0.1), cold=True)
    assert 0 < heard.told[JobId(3)].p50_s < heard.told[JobId(3)].p90_s


def test_what_came_is_the_traffic() -> None:
    heard, _ = listen(*(arrival(n, 0.5 * n) for n in range(1, 9)))
    assert heard.traffic == pytest.approx(2 / HOUR)


def test_the_same_boards_give_the_same_answers() -> None:
    come = [arrival(n, 0.2 * n, 0.5 + 0.1 * n) for n in range(1, 15)]
    assert listen(*come)[0].told == listen(*come)[0].told
