"""Admission to the queue: admitted jobs start in time, deferred ones yield to them, no device stays idle."""

from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.device import Device, DeviceId, HostId
from gpuq.core.state.job import JobId, JobState
from gpuq.core.state.state import State
from gpuq.core.state.verdict import Rule
from gpuq.policies.lists.queueing import Queueing
from gpuq.sim.candidate import Candidate
from gpuq.sim.forecaster import Oracle
from gpuq.sim.run import Simulation
from gpuq.sim.trace import JobArrival, Trace
from gpuq.sim.world import Workload, World

HOUR = 3600.0
WORLD = World(
    "one",
    (Device(DeviceId("d"), HostId("h"), "sim", "P100", 2**34),),
    {"w": Workload("w", "w", 8, 100.0)},
    {"w": "w"},
    {},
)


def playing(limit_s: float, *arrivals: JobArrival) -> Simulation:
    policy = Queueing(limit_s)
    candidate = Candidate("queueing", policy, Limits(residents_per_device=1, patience_s=1e9))
    return Simulation(Trace("test", arrivals), WORLD, Oracle(WORLD), candidate)


def arrival(number: int, at: float = 0.0, hours: float = 1.0) -> JobArrival:
    return JobArrival(JobId(number), at * HOUR, hours * HOUR, 1, "w", "ada")


def rules(state: State) -> dict[int, str]:
    return {job: verdict.rule for job, verdict in state.verdicts.items()}


def test_job_with_too_long_a_wait_is_deferred_with_its_verdict() -> None:
    verdicts: dict[int, str] = {}
    simulation = playing(6 * HOUR, *(arrival(n) for n in range(1, 12)))
    simulation.play(lambda share: verdicts.update(rules(simulation.state)) if not verdicts else None)
    assert verdicts[3] == Rule.RESOURCES
    assert verdicts[11] == Rule.WAIT_LIMIT


def test_deferred_job_yields_to_a_later_admitted_one_and_starts_in_the_end() -> None:
    run = playing(6 * HOUR, *(arrival(n, hours=2.0) for n in range(1, 6)), arrival(6, at=3.9)).play()
    start = {job.arrival.job: job.first_started_at or 0.0 for job in run.jobs}
    assert start[JobId(6)] < start[JobId(5)]
    assert all(job.state is JobState.COMPLETED for job in run.jobs)


def test_without_deferral_it_is_first_come_first_served() -> None:
    run = playing(1e9, *(arrival(n) for n in range(1, 8))).play()
    assert [job.first_started_at for job in run.jobs] == [HOUR * n for n in range(7)]
