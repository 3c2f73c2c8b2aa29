"""A day in a small world, told by the simulator."""

from gpuq.core.device import Device, DeviceId, HostId
from gpuq.core.job import JobId, JobState
from gpuq.policies.packed import packed
from gpuq.sim.beliefs import Cold, Oracle
from gpuq.sim.contender import Contender
from gpuq.sim.record import Run
from gpuq.sim.run import simulate
from gpuq.sim.trace import Arrival, Trace
from gpuq.sim.world import Workload, World

GIB = 2**30
PACKED = Contender("packed", packed)


def world(devices: int = 1, hosts: int = 1) -> World:
    """`light` and `light` slow each other by a tenth, `heavy` doubles everything."""
    light, heavy = Workload("light", "light", 8, 40.0, GIB), Workload("heavy", "heavy", 8, 95.0, GIB)
    pairs = {("light", "light"): 1.1, ("light", "heavy"): 2.0, ("heavy", "light"): 2.0, ("heavy", "heavy"): 2.0}
    return World(
        "small",
        tuple(
            Device(DeviceId(f"h{h}/{d}"), HostId(f"h{h}"), "sim", "P100", 16 * GIB, "mps")
            for h in range(hosts)
            for d in range(devices)
        ),
        {"light": light, "heavy": heavy},
        {"light": "light", "heavy": "heavy"},
        pairs,
    )


def arrivals(*kinds: str, duration_s: float = 100.0, devices: int = 1) -> Trace:
    return Trace(
        "told", tuple(Arrival(JobId(n), 0.0, duration_s, devices, kind, "ada") for n, kind in enumerate(kinds, 1))
    )


def ends(run: Run) -> list[float]:
    assert all(job.state is JobState.COMPLETED for job in run.jobs)
    return [round(job.ended_at or -1, 6) for job in run.jobs]


def test_what_is_not_known_runs_one_after_the_other() -> None:
    assert ends(simulate(arrivals("light", "light"), world(), Cold(), PACKED)) == [100, 200]


def test_two_that_fit_run_together_and_slow_each_other_as_the_world_says() -> None:
    small = world()
    assert ends(simulate(arrivals("light", "light"), small, Oracle(small), PACKED)) == [
        110,
        110,
    ]


def test_two_that_do_not_fit_wait_for_each_other() -> None:
    small = world()
    assert ends(simulate(arrivals("heavy", "light"), small, Oracle(small), PACKED)) == [
        100,
        200,
    ]


def test_a_gang_gets_all_its_devices_on_one_host() -> None:
    wide = world(devices=2, hosts=2)
    run = simulate(arrivals("heavy", "heavy", "heavy", devices=2), wide, Oracle(wide), PACKED)
    assert ends(run) == [100, 100, 200]
    assert all(len({device.split("/")[0] for device in job.attempts[0].devices}) == 1 for job in run.jobs)
