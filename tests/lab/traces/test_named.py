"""The public traces by name, in measured worlds, as every policy is judged in them."""

from pathlib import Path

import pytest

from gpuq.errors import BadInput
from gpuq.lab.public import folder
from gpuq.lab.traces.named import philly_scenario
from gpuq.sim.scenario import open_scenario

DATA = folder()
needs_data = pytest.mark.skipif(DATA is None, reason="needs the measured public data (GPUQ_DATA)")


@pytest.fixture
def data() -> Path:
    assert DATA is not None
    return DATA


@needs_data
@pytest.mark.parametrize("load", [0.7, 0.9, 1.1])
def test_the_load_is_what_was_asked_for(data: Path, load: float) -> None:
    arrivals = philly_scenario(data, pairs="mps", load=load, jobs=300).trace.arrivals
    work = sum(job.duration_s * job.devices for job in arrivals)
    assert work / (64 * arrivals[-1].submit_s) == pytest.approx(load)


@needs_data
def test_the_same_seed_gives_the_same_jobs_at_every_load_and_in_every_world(data: Path) -> None:
    low, high = (
        philly_scenario(data, pairs="mps", load=0.7, seed=3),
        philly_scenario(data, pairs="gavel-p100", load=1.1, seed=3),
    )
    assert [(job.duration_s, job.kind, job.owner) for job in low.trace.arrivals] == [
        (job.duration_s, job.kind, job.owner) for job in high.trace.arrivals
    ]
    assert philly_scenario(data, pairs="mps", load=0.7, seed=3) == low
    assert philly_scenario(data, pairs="mps", load=0.7, seed=4).trace.arrivals != low.trace.arrivals


@needs_data
@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
def test_there_are_two_weeks_of_nights_to_learn_in(data: Path, seed: int) -> None:
    arrivals = philly_scenario(data, pairs="mps", seed=seed).trace.arrivals
    assert arrivals[-1].submit_s >= 14 * 86_400
    assert max(job.devices for job in arrivals) <= 8


@needs_data
@pytest.mark.parametrize("pairs", ["mps", "gavel-p100"])
def test_every_kind_has_a_workload_and_every_pair_a_slowdown(data: Path, pairs: str) -> None:
    made = philly_scenario(data, pairs=pairs, jobs=300)
    kinds = {job.kind for job in made.trace.arrivals}
    assert kinds == set(made.world.workload_of)
    assert all(made.world.slowdown(kind, [other]) > 0 for kind in kinds for other in kinds)
    assert {device.type for device in made.world.devices} == {made.world.devices[0].type}


@needs_data
def test_a_world_that_is_not_there_is_refused(data: Path) -> None:
    with pytest.raises(BadInput, match="no world `k80`"):
        philly_scenario(data, pairs="k80")


@needs_data
@pytest.mark.parametrize("source", ["alibaba", "muri:trace2", "philly"])
def test_public_traces_are_opened_by_name(source: str) -> None:
    made = open_scenario(source, jobs=200)
    assert len(made.trace.arrivals) == 200
    assert len(made.world.devices) == 64
    assert {job.kind for job in made.trace.arrivals} == set(made.world.workload_of)


@pytest.mark.parametrize("source", ["alibaba", "muri:trace2", "philly"])
def test_public_trace_without_its_data_is_refused(tmp_path: Path, source: str) -> None:
    with pytest.raises(BadInput, match="not here") as wrong:
        open_scenario(source, world="law", environ={"GPUQ_DATA": str(tmp_path / "none")})
    assert "GPUQ_DATA" in wrong.value.fix
