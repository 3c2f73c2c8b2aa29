"""A site's record, played on its own devices and on others."""

from pathlib import Path

import pytest

from gpuq.errors import BadInput
from gpuq.sim.scenario import open_scenario
from gpuq.sim.scenario_builder import ScenarioOptions
from gpuq.sim.traces.history import of_past
from gpuq.sim.traces.past import Past, past
from gpuq.sim.worlds.workload_set import law_workloads
from tests.sim.rows import ended
from tests.support.nouns import a_device
from tests.support.sqlite_record import make_record


@pytest.fixture
def record() -> Past:
    devices = (a_device("h/0", host="h", type="GPU"), a_device("h/1", host="h", type="GPU"))
    rows = [
        ended(1, "a", at=1000),
        ended(2, "b", at=1100, utilization=30.0),
        ended(3, "a", at=1200, beside=(4, "b", 1.5, 1.0)),
        ended(4, "b", at=1200, beside=(3, "a", 1.1, 1.0)),
    ]
    return past(devices, rows)


def test_history_keeps_times_devices_and_measured_pairs(record: Past) -> None:
    found = of_past(record, ScenarioOptions(None), None)
    assert [job.submit_s for job in found.trace.arrivals] == [0, 100, 200, 200]
    assert found.world.devices == record.devices
    assert found.world.slowdown("a", ["b"]) == 1.5
    assert found.world.slowdown("b", ["a"]) == 1.1


def test_further_devices_are_of_the_most_frequent_class(record: Past) -> None:
    devices = of_past(record, ScenarioOptions(5), None).world.devices
    assert len(devices) == 5
    assert {device.type for device in devices} == {"GPU"}
    assert len({device.host for device in devices}) == 3


def test_kinds_keep_their_names_in_another_world(record: Past) -> None:
    found = of_past(record, ScenarioOptions(None), law_workloads())
    assert set(found.world.workload_of) == {"a", "b"}
    assert found.world.name == "law"


def test_an_empty_record_is_refused_with_a_sentence(tmp_path: Path) -> None:
    url = make_record(tmp_path / "gpuq.db")
    with pytest.raises(BadInput, match="no job to play"):
        open_scenario("history", environ={"GPUQ_HOME": str(tmp_path), "GPUQ_DATABASE_URL": url})
