"""`gpuq simulate` as a process: table, JSON, page, and exit codes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from gpuq.errors import BadInput
from gpuq.sim.command import main, overrides
from tests.sim.test_compare import CSV


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("GPUQ_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.csv").write_text(CSV)
    return "jobs.csv"


def simulate(*arguments: str) -> int:
    return main([*arguments, "--world=law", "--gpus=2", "--forecasts=oracle"])


def test_a_table_on_stdout_and_the_page_beside(trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate(trace, "--policy=packed-exclusive") == 0
    out, err = capsys.readouterr()
    assert "packed-exclusive" in out
    assert "Wrote gpuq-simulation.html" in err
    assert "<svg" in (tmp_path / "gpuq-simulation.html").read_text()


def test_plain_installation_simulates_without_the_training_libraries(
    trace: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("scipy", "sklearn", "matplotlib", "tensorflow"):
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    assert main([trace, "--world=law", "--gpus=2", "--jobs=20", "--policy=packed", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["contenders"][0]["median"]["jobs"] == 20
    assert found["contenders"][0]["median"]["possible_saving"] is None
    notes = [note for note in found["notes"] if "pip install 'gpuq-daemon[train]'" in note]
    assert [note.split(",")[0] for note in notes] == [
        "forecasts: gpuq's own history of each kind",
        "the most that sharing could save is not computed: that needs SciPy (pip install 'gpuq-daemon[train]')",
    ]


def test_a_page_that_cannot_be_written_costs_no_result(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gpuq-simulation.html").mkdir()
    assert simulate(trace, "--policy=packed") == 0
    out, err = capsys.readouterr()
    assert "packed" in out
    assert "no page with plots: gpuq-simulation.html cannot be written: Is a directory." in err
    assert simulate(trace, "--policy=packed", "--html=nowhere/page.html") == 1
    out, err = capsys.readouterr()
    assert "packed" in out, "the result is shown before the page is written"
    assert "Name another file with --html" in err


def test_json_alone_writes_no_page_unless_named(trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate(trace, "--policy=packed", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["contenders"][0]["median"]["jobs"] == 40
    assert not (tmp_path / "gpuq-simulation.html").exists()
    assert simulate(trace, "--policy=packed", "--json", "--html=named.html") == 0
    assert (tmp_path / "named.html").exists()


def test_settings_can_be_tried(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate(trace, "--policy=packed", "--json", "--set=admission.residents_per_device=1") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["contenders"][0]["median"]["sharing_jobs"] == 0
    assert "settings tried: admission.residents_per_device=1" in found["notes"]
    assert any("this is a bound" in note for note in found["notes"])


def test_an_assignment_becomes_the_variable_that_says_the_same() -> None:
    assert overrides(["admission.max_slowdown=1.2"]) == {"GPUQ_ADMISSION_MAX_SLOWDOWN": "1.2"}
    for wrong in ("admission.max_slowdown", "max_slowdown=1", "nothing.max_slowdown=1", "admission.nothing=1", ""):
        with pytest.raises(BadInput):
            overrides([wrong])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere.csv"], "nowhere.csv"),
        (["jobs.csv", "--policy=missing"], "`missing`"),
        (["jobs.csv", "--set=admission.max_slowdown=much"], "admission"),
        (["jobs.csv", "--policy=packed", "--html=nowhere/page.html"], "nowhere/page.html"),
        (["jobs.csv", "--world=nowhere"], "nowhere"),
        ([], "No job has run here yet"),
    ],
)
def test_errors_are_a_sentence_and_a_fix_without_traceback(
    trace: str, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--gpus=2", "--forecasts=oracle", *arguments]) in (1, 2)
    err = capsys.readouterr().err
    assert says in err
    assert len(err.splitlines()) == 2
    assert "Traceback" not in err
