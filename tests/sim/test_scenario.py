"""Scenarios by the name of their source: CSV files, worlds by name, and what is refused."""

from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from gpuq.errors import BadInput
from gpuq.sim import extensions
from gpuq.sim.scenario import find_workloads, open_scenario


@pytest.fixture
def nothing_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no package added traces, worlds or candidates."""
    monkeypatch.setattr(extensions, "entry_points", lambda group: EntryPoints(()))


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = tmp_path / "jobs.csv"
    path.write_text("submit_s,duration_s,num_gpus,kind,user\n0,60,1,a,ada\n30,60,2,b,bob\n")
    return str(path)


def test_csv_file_needs_no_public_data(tmp_path: Path, table: str) -> None:
    nowhere = {"GPUQ_DATA": str(tmp_path / "none")}
    made = open_scenario(table, gpus=4, environ=nowhere)
    assert [job.kind for job in made.trace.arrivals] == ["a", "b"]
    assert made.world.name == "law"
    with pytest.raises(BadInput, match="how many GPUs"):
        open_scenario(table, environ=nowhere)


def test_file_of_any_name_is_a_table(tmp_path: Path, table: str) -> None:
    for name in ("jobs.tsv", "JOBS.CSV", "philly"):
        path = Path(table).rename(tmp_path / name)
        assert len(open_scenario(str(path), gpus=4, world="law").trace.arrivals) == 2
        table = str(path)


@pytest.mark.usefixtures("nothing_added")
def test_csv_file_needs_no_laboratory(table: str) -> None:
    assert open_scenario(table, gpus=4).world.name == "law"


def test_world_law_needs_no_data_and_its_notes_say_so() -> None:
    found = find_workloads("law", {})
    assert all(found.pairs[a, b] >= 1 for a in found.workloads for b in found.workloads)
    assert found.pairs["busy 100%", "busy 100%"] == pytest.approx(2, rel=0.01)
    assert "nothing in this world was measured" in found.notes[0]


def test_unknown_trace_world_or_load_is_refused() -> None:
    with pytest.raises(BadInput, match="no trace `venus`") as wrong:
        open_scenario("venus", world="law")
    assert "philly" in wrong.value.fix
    with pytest.raises(BadInput, match="no world `k80`") as wrong:
        find_workloads("k80", {})
    assert "gavel-p100" in wrong.value.fix
    with pytest.raises(BadInput, match="load is 0"):
        open_scenario("philly", load=0.0)


@pytest.mark.usefixtures("nothing_added")
def test_without_the_laboratory_the_fix_says_how_to_install_it() -> None:
    with pytest.raises(BadInput, match="no trace `philly`") as wrong:
        open_scenario("philly", world="law")
    assert "pip install 'gpuq-daemon[lab]'" in wrong.value.fix
    with pytest.raises(BadInput, match="no world `mps`") as wrong:
        find_workloads("mps", {})
    assert "pip install 'gpuq-daemon[lab]'" in wrong.value.fix


def test_an_entry_point_that_cannot_be_loaded_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = EntryPoint("broken", "gpuq.no_such_module:open", "gpuq.traces")
    monkeypatch.setattr(extensions, "entry_points", lambda group: EntryPoints([broken]))
    with pytest.raises(BadInput, match=r"`broken` .* cannot be loaded: ModuleNotFoundError"):
        open_scenario("broken", world="law")
