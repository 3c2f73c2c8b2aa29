"""ANDREAS in a small world with two device types of different speed and power."""

from dataclasses import replace

from gpuq.core.scheduling.limits import Limits
from gpuq.core.state.device import Device, DeviceId, HostId
from gpuq.core.state.forecast import Forecast
from gpuq.core.state.job import Job, JobId, JobState, KindId
from gpuq.policies.planners.andreas import Andreas, Prices
from gpuq.sim.candidate import Candidate
from gpuq.sim.forecaster import Cold, Oracle
from gpuq.sim.record import SimulationRun
from gpuq.sim.run import simulate
from gpuq.sim.trace import JobArrival, Trace
from gpuq.sim.world import Workload, World

HOUR = 3600.0
PRICES = Prices(energy=0.3, late=1.0)
ALONE = Limits(residents_per_device=1)


def world(fast: int = 1, slow: int = 1, **changes: object) -> World:
    """`slow` takes twice as long and half of the energy."""
    work = Workload("w", "w", 8, 100.0, None, None, {"slow": 0.5}, {"fast": 200.0, "slow": 50.0}, {1: 1.0, 2: 1.8})
    devices = [("fast", number) for number in range(fast)] + [("slow", number) for number in range(slow)]
    return World(
        "two types",
        tuple(Device(DeviceId(f"{kind}/{n}"), HostId(kind), "sim", kind, 2**34) for kind, n in devices),
        {"w": replace(work, **changes)},  # type: ignore[arg-type]
        {"w": "w"},
        {},
    )


def arrival(number: int, hours: float = 1.0, due: float | None = None, **changes: object) -> JobArrival:
    usual = JobArrival(JobId(number), 0.0, hours * HOUR, 1, "w", "ada", deadline_s=None if due is None else due * HOUR)
    return replace(usual, **changes)  # type: ignore[arg-type]


def play(here: World, *arrivals: JobArrival, cold: bool = False) -> SimulationRun:
    forecaster = Cold() if cold else Oracle(here)
    return simulate(Trace("test", arrivals), here, forecaster, Candidate("andreas", Andreas(PRICES), ALONE))


def types(run: SimulationRun) -> list[str]:
    return [job.attempts[0].device_type for job in run.jobs]


def test_slack_saves_energy_and_pressure_takes_the_fast_device() -> None:
    assert types(play(world(), arrival(1, due=9.0), arrival(2, due=1.2))) == ["slow", "fast"]


def test_job_waits_for_the_cheaper_device_if_that_is_in_time() -> None:
    run = play(world(), arrival(1, due=20.0), arrival(2, due=20.0))
    assert types(run) == ["slow", "slow"]
    assert run.jobs[1].first_started_at == 2 * HOUR


def test_more_devices_where_one_would_be_late() -> None:
    here = world(fast=2, slow=0)
    assert len(play(here, arrival(1, due=0.7, most_devices=2)).jobs[0].attempts[0].devices) == 2
    assert len(play(here, arrival(1, due=7.0, most_devices=2)).jobs[0].attempts[0].devices) == 1


def test_higher_priority_goes_first_where_one_must_be_late() -> None:
    run = play(world(slow=0), arrival(1, due=1.0), arrival(2, due=1.0, priority=3))
    assert [job.first_started_at for job in run.jobs] == [HOUR, 0.0]


def test_without_known_power_time_alone_decides() -> None:
    assert types(play(world(powers={}), arrival(1, due=9.0))) == ["fast"]


def test_without_forecasts_it_is_first_come_first_served() -> None:
    come = [arrival(n, hours=4 - n, submit_s=float(n)) for n in (1, 2, 3)]
    run = play(world(slow=0), *come, cold=True)
    starts = [job.first_started_at or 0.0 for job in run.jobs]
    assert starts == sorted(starts)


def test_no_job_starves_beside_a_stream_of_urgent_jobs() -> None:
    """The long job without a deadline is always worth less than the next short one, until it has waited far too long."""
    short = [arrival(n, hours=0.2, submit_s=(n - 2) * 0.19 * HOUR, due=0.19 * n, priority=5) for n in range(2, 120)]
    run = play(world(slow=0), arrival(1, hours=1.0), *short)
    assert all(job.state is JobState.COMPLETED for job in run.jobs)
    assert (run.jobs[0].first_started_at or 0.0) < 15 * HOUR


def test_runs_are_repeatable() -> None:
    come = [arrival(n, hours=0.3 * n, due=0.5 * n) for n in range(1, 12)]
    first, second = (play(world(fast=2, slow=2), *come) for _ in range(2))
    assert [job.ended_at for job in first.jobs] == [job.ended_at for job in second.jobs]


def test_one_configuration_for_each_count_that_is_faster() -> None:
    from gpuq.policies.planners.andreas import _configurations

    job = Job(JobId(1), KindId("k"), "k", "ada", 0.0, most_devices=4)
    device = Device(DeviceId("d"), HostId("h"), "sim", "fast", 2**34)
    forecast = Forecast(duration_p50_s=HOUR, power_w=100.0, speedups=((1, 1.0), (2, 1.5), (4, 1.4)))
    ways = _configurations(job, [(device, forecast)], HOUR, PRICES)
    assert [(way.count, way.duration_s) for way in ways] == [(1, HOUR), (2, HOUR / 1.5)]
    assert ways[0].energy_cost == 0.3 * 0.1
