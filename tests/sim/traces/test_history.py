"""A site's record, played on its own devices and on others."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from gpuq.core.state.attempt import Ending
from gpuq.errors import BadInput
from gpuq.sim.scenario import open_scenario
from gpuq.sim.scenario_builder import ScenarioOptions
from gpuq.sim.traces.history import SiteHistory, history_scenario, site_history
from gpuq.sim.worlds.workload_set import law_workloads
from tests.sim.rows import ended
from tests.support.nouns import a_device
from tests.support.sqlite_record import make_record


@pytest.fixture
def record() -> SiteHistory:
    devices = (a_device("h/0", host="h", type="GPU"), a_device("h/1", host="h", type="GPU"))
    rows = [
        ended(1, "a", at=1000),
        ended(2, "b", at=1100, utilization=30.0),
        ended(3, "a", at=1200, beside=(4, "b", 1.5, 1.0)),
        ended(4, "b", at=1200, beside=(3, "a", 1.1, 1.0)),
    ]
    return site_history(devices, rows)


def test_history_keeps_times_devices_and_measured_pairs(record: SiteHistory) -> None:
    found = history_scenario(record, ScenarioOptions(None), None)
    assert [job.submit_s for job in found.trace.arrivals] == [0, 100, 200, 200]
    assert found.world.devices == record.devices
    assert found.world.slowdown("a", ["b"]) == 1.5
    assert found.world.slowdown("b", ["a"]) == 1.1


def test_further_devices_are_of_the_most_frequent_class(record: SiteHistory) -> None:
    devices = history_scenario(record, ScenarioOptions(5), None).world.devices
    assert len(devices) == 5
    assert {device.type for device in devices} == {"GPU"}
    assert len({device.host for device in devices}) == 3


def test_kinds_keep_their_names_in_another_world(record: SiteHistory) -> None:
    found = history_scenario(record, ScenarioOptions(None), law_workloads())
    assert set(found.world.workload_of) == {"a", "b"}
    assert found.world.name == "law"


def test_an_empty_record_is_refused_with_a_sentence(tmp_path: Path) -> None:
    url = make_record(tmp_path / "gpuq.db")
    with pytest.raises(BadInput, match="no job to play"):
        open_scenario("history", environ={"GPUQ_HOME": str(tmp_path), "GPUQ_DATABASE_URL": url})


# --- the record as a trace ---------------------------------------------------------------------------------------------

DEVICES = (a_device("h/0", host="h", type="GPU"),)


def test_duration_alone_is_the_time_that_it_ran() -> None:
    (job,) = site_history(DEVICES, [ended(1, "a", at=100, start=150, lasts=60)]).trace.jobs
    assert (job.submit_s, job.duration_s, job.kind, job.owner, job.devices) == (100, 60, "a", "ada", 1)


def test_options_of_the_submission_are_kept() -> None:
    row, attempt = ended(1, "a", at=100)
    asked = replace(row.record.submission, priority=5, deadline_at=400.0, gpu_memory=2**30, preemptible=True)
    (job,) = site_history(DEVICES, [(replace(row, record=replace(row.record, submission=asked)), attempt)]).trace.jobs
    assert (job.priority, job.deadline_s, job.declared_memory, job.preemptible) == (5, 400, 2**30, True)


def test_time_beside_a_partner_is_divided_by_the_measured_slowdown() -> None:
    (job,) = site_history(DEVICES, [ended(1, "a", lasts=100, beside=(2, "b", 2.0, 0.6))]).trace.jobs
    assert job.duration_s == pytest.approx(40 + 60 / 2)


def test_slowdown_missing_in_the_attempt_is_taken_from_other_runs_of_the_pair() -> None:
    known = ended(1, "a", lasts=100, beside=(2, "b", 2.0, 1.0))
    found = site_history(DEVICES, [known, ended(3, "a", lasts=80, beside=(4, "b", None, 1.0))]).trace
    assert [job.duration_s for job in found.jobs] == [50, 40]


def test_unmeasured_slowdown_leaves_the_duration_and_is_noted() -> None:
    found = site_history(DEVICES, [ended(1, "a", lasts=80, beside=(2, "b", None, 1.0))]).trace
    assert found.jobs[0].duration_s == 80
    assert any("1 of them shared" in note for note in found.notes)


def test_restarted_job_counts_once_with_its_last_attempt() -> None:
    first = ended(1, "a", lasts=5, ending=Ending.OUT_OF_MEMORY, exit_code=1)
    second = ended(1, "a", start=10, lasts=60)
    found = site_history(DEVICES, [first, second]).trace
    assert [job.duration_s for job in found.jobs] == [60]
    assert not any("left out" in note for note in found.notes)


def test_stopped_jobs_are_left_out_and_a_record_without_others_is_refused() -> None:
    stopped = ended(1, "a", ending=Ending.STOPPED, exit_code=None)
    found = site_history(DEVICES, [stopped, ended(2, "a")]).trace
    assert len(found.jobs) == 1
    assert any("left out: 1 job" in note for note in found.notes)
    with pytest.raises(BadInput, match="no job to play"):
        site_history(DEVICES, [stopped])
