"""From an imported trace to a scenario."""

import pytest

from gpuq.errors import BadInput
from gpuq.lab.worlds.contention import law_zoo
from gpuq.sim.scenario_builder import Stage, staged
from gpuq.sim.traces.requests import Asked, Imported, imported


def trace(count: int = 200, **more: object) -> Imported:
    return imported("t", [Asked(60.0 * n, 100.0 + n % 7, 1 + n % 2, f"vc{n % 3}", **more) for n in range(count)], [])  # type: ignore[arg-type]


def test_the_same_arguments_give_the_same_scenario() -> None:
    assert staged(trace(), law_zoo(), Stage(4, 0.9)) == staged(trace(), law_zoo(), Stage(4, 0.9))
    assert staged(trace(), law_zoo(), Stage(4, 0.9)) != staged(trace(), law_zoo(), Stage(4, 0.9, seed=2))


def test_every_kind_has_a_workload_and_none_comes_up_much_more_often() -> None:
    jobs = [Asked(float(n), 10.0, 1, "vc", owner=f"o{n}") for n in range(25)]
    world = staged(imported("t", jobs, []), law_zoo(), Stage(4)).world
    counts = [list(world.workload_of.values()).count(name) for name in world.workloads]
    assert sum(counts) == 25
    assert max(counts) - min(counts) <= 1


def test_a_part_of_a_device_gives_a_workload_that_keeps_so_much_busy() -> None:
    world = staged(trace(share_pct=31.0), law_zoo(), Stage(4)).world
    assert {world.workload(kind).utilization_pct for kind in world.workload_of} == {30}


def test_times_stay_as_they_are_unless_a_load_is_named() -> None:
    assert [job.submit_s for job in staged(trace(), law_zoo(), Stage(4)).trace.arrivals][:3] == [0, 60, 120]
    assert staged(trace(), law_zoo(), Stage(4, 0.5)).trace.arrivals[1].submit_s != 60


def test_fewer_jobs_are_some_in_a_row() -> None:
    arrivals = staged(trace(), law_zoo(), Stage(4, jobs=20)).trace.arrivals
    assert [job.submit_s for job in arrivals] == [60.0 * n for n in range(20)]


def test_nobody_knows_how_many_devices_there_are_unless_told() -> None:
    with pytest.raises(BadInput, match="how many GPUs") as wrong:
        staged(trace(), law_zoo(), Stage(None))
    assert "--gpus" in wrong.value.fix
