"""`gpuq model characterize` as people run it: on tables, on the record, on nothing."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from gpuq.adapters.store import open_store
from gpuq.errors import Failure
from gpuq.home import Home
from gpuq.lab.characterize import command
from tests.daemon.nights import world
from tests.daemon.record import fill
from tests.support import forked
from tests.support.sqlite_record import make_record

SINGLES = (
    "device_type,job,model,batch_size,utilization_pct,memory_utilization_pct,peak_memory_mib,power_w,steps_per_s\n"
)


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    rows = [
        f"GPU,net{net}-{size},net{net},{size},{20 * net + 5 * place},,{1000 * net + 100 * place},{90 * net + 9 * place},"
        for net in (1, 2, 3)
        for place, size in enumerate((4, 16, 64, 256))
    ]
    folder = tmp_path / "tables"
    folder.mkdir()
    (folder / "singles.csv").write_text(SINGLES + "\n".join(rows) + "\n")
    (folder / "pairs.csv").write_text(
        "device_type,sharing,job_a,job_b,slowdown_a,slowdown_b\nGPU,mps,net1-4,net3-256,1.1,1.3\n"
    )
    return folder


def gpuq(home: Path, *words: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "GPUQ_HOME": str(home)}
    environment.pop("GPUQ_DATABASE_URL", None)
    return forked.gpuq("model", "characterize", *map(str, words), env=environment, text=True)


def test_tables_are_described_with_no_daemon_and_no_home(tables: Path, tmp_path: Path):
    done = gpuq(tmp_path / "home", "--data", tables, "--json", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["tables"][0]["rows"] == 12
    assert found["packing"][0]["pairs"][0]["slowdown_b"] == 1.3
    written = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert written == [
        "characterization.html", "characterization.json", "clusters.png", "elbow.png", "interpolation.png", "pairs.png",
        "relevance.png", "synthetic.png",
    ]  # fmt: skip
    assert (tmp_path / "out" / "characterization.json").read_text() == done.stdout
    assert "characterization.html" in done.stderr
    assert not (tmp_path / "home").exists()


def test_the_record_is_described_where_no_tables_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    home = Home(tmp_path / "home")
    home.create()
    store = open_store(make_record(home.database))
    fill(store, world())
    store.close()
    monkeypatch.setenv("GPUQ_HOME", str(home.root))
    assert command.main([]) == 0
    printed = capsys.readouterr().out
    assert "Relevance to peak_utilization_pct" in printed
    assert "32 jobs measured alone" in printed
    assert "Clusters: 2" in printed


def test_nothing_to_describe_is_exit_code_2_with_its_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    home = Home(tmp_path / "home")
    home.create()
    make_record(home.database)
    (tmp_path / "empty").mkdir()
    new, none = tmp_path / "new", "No finished attempt"
    for where, words, sentence in (
        (home.root, [], none),
        (new, [], none),
        (home.root, ["--data", str(tmp_path / "empty")], "no measured jobs"),
    ):
        monkeypatch.setenv("GPUQ_HOME", str(where))
        assert command.main(words) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert sentence in printed.err
        assert len(printed.err.splitlines()) == 2
    assert not new.exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--host", "http://127.0.0.1:1"), "on this machine"),
        (("--surprise",), "unrecognized"),
    ],
)
def test_invalid_options_are_refused_by_the_command(tmp_path: Path, words: tuple[str, ...], sentence: str):
    done = gpuq(tmp_path, *words)
    assert done.returncode == 2
    assert sentence in done.stderr


def test_unexpected_error_is_a_sentence(monkeypatch: pytest.MonkeyPatch, capsys, tables: Path):
    def fail(data: object) -> None:
        raise ZeroDivisionError("so it is")

    monkeypatch.setattr(command, "characterize", fail)
    monkeypatch.delenv("GPUQ_DEBUG", raising=False)
    assert command.main(["--data", str(tables)]) == 1
    assert "ZeroDivisionError: so it is" in capsys.readouterr().err
    monkeypatch.setenv("GPUQ_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        command.main(["--data", str(tables)])


def test_a_folder_that_cannot_be_written_to_is_reported(tables: Path, tmp_path: Path):
    (tmp_path / "file").write_text("")
    report = command.characterize(command.read_folder(tables))
    with pytest.raises(Failure, match="cannot be written"):
        command.write(report, tmp_path / "file")
