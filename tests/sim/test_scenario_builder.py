"""From an imported trace to a scenario."""

import pytest

from gpuq.errors import BadInput
from gpuq.sim.scenario_builder import ScenarioOptions, build_scenario
from gpuq.sim.traces.requests import ImportedTrace, TraceJob, imported
from gpuq.sim.worlds.workload_set import law_workloads


def trace(count: int = 200, **more: object) -> ImportedTrace:
    return imported("t", [TraceJob(60.0 * n, 100.0 + n % 7, 1 + n % 2, f"vc{n % 3}", **more) for n in range(count)], [])  # type: ignore[arg-type]


def test_the_same_arguments_give_the_same_scenario() -> None:
    assert build_scenario(trace(), law_workloads(), ScenarioOptions(4, 0.9)) == build_scenario(
        trace(), law_workloads(), ScenarioOptions(4, 0.9)
    )
    assert build_scenario(trace(), law_workloads(), ScenarioOptions(4, 0.9)) != build_scenario(
        trace(), law_workloads(), ScenarioOptions(4, 0.9, seed=2)
    )


def test_every_kind_has_a_workload_and_none_comes_up_much_more_often() -> None:
    jobs = [TraceJob(float(n), 10.0, 1, "vc", owner=f"o{n}") for n in range(25)]
    world = build_scenario(imported("t", jobs, []), law_workloads(), ScenarioOptions(4)).world
    counts = [list(world.workload_of.values()).count(name) for name in world.workloads]
    assert sum(counts) == 25
    assert max(counts) - min(counts) <= 1


def test_a_part_of_a_device_gives_a_workload_that_keeps_so_much_busy() -> None:
    world = build_scenario(trace(share_pct=31.0), law_workloads(), ScenarioOptions(4)).world
    assert {world.workload(kind).utilization_pct for kind in world.workload_of} == {30}


def test_times_stay_as_they_are_unless_a_load_is_named() -> None:
    assert [job.submit_s for job in build_scenario(trace(), law_workloads(), ScenarioOptions(4)).trace.arrivals][
        :3
    ] == [0, 60, 120]
    assert build_scenario(trace(), law_workloads(), ScenarioOptions(4, 0.5)).trace.arrivals[1].submit_s != 60


def test_fewer_jobs_are_some_in_a_row() -> None:
    arrivals = build_scenario(trace(), law_workloads(), ScenarioOptions(4, jobs=20)).trace.arrivals
    assert [job.submit_s for job in arrivals] == [60.0 * n for n in range(20)]


def test_number_of_devices_must_be_given() -> None:
    with pytest.raises(BadInput, match="how many GPUs") as wrong:
        build_scenario(trace(), law_workloads(), ScenarioOptions(None))
    assert "--gpus" in wrong.value.fix


def test_a_trace_says_how_much_of_its_device_time_is_left_out() -> None:
    jobs = [TraceJob(0.0, 60.0, 1, "vc"), TraceJob(1.0, 60.0, 16, "vc")]
    found = build_scenario(imported("t", jobs, []), law_workloads(), ScenarioOptions(16))
    assert found.trace.left_out == pytest.approx(16 / 17)
