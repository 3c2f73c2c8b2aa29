"""Folders of tables, and a site's own attempts, as tables that can be described."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from gpuq.errors import BadInput
from gpuq.lab.characterize.source import from_outcomes, read_folder
from tests.learn.world import DEVICE, GIB, Work, run

SINGLES = """\
device_type,job,model,batch_size,utilization_pct,memory_utilization_pct,peak_memory_mib,power_w,steps_per_s
GPU A,a1,a,8,40,,1000,90,
GPU A,a2,a,16,60,30,1500,95,7.5
GPU B,a1,a,8,20,,900,,
"""
PAIRS = "device_type,sharing,job_a,job_b,slowdown_a,slowdown_b\nGPU A,mps,a1,a2,1.2,1.1\nGPU C,,x,y,1.5,\n"


def folder(path: Path, **files: str) -> Path:
    for name, text in files.items():
        (path / f"{name}.csv").write_text(text, encoding="utf-8")
    return path


def test_documented_tables_are_read_device_by_device(tmp_path: Path):
    data = read_folder(folder(tmp_path, singles=SINGLES, pairs=PAIRS))
    assert [(table.device_type, len(table.rows)) for table in data.tables] == [("GPU A", 2), ("GPU B", 1)]
    assert data.tables[0].rows[0].values["memory_utilization_pct"] is None
    assert (data.pairs[0].place_b, data.pairs[0].sharing) == (("a", 16.0), "mps")
    assert (data.pairs[1].place_a, data.pairs[1].sharing, data.pairs[1].slowdown_b) == (("x", None), None, None)


def test_pairs_alone_will_do(tmp_path: Path):
    data = read_folder(folder(tmp_path, pairs=PAIRS))
    assert (data.tables, len(data.pairs)) == ((), 2)


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({}, "no measured jobs"),
        ({"singles": SINGLES.splitlines()[0]}, "no measured jobs"),
        ({"singles": SINGLES.replace(",40,", ",lots,")}, "singles.csv:2: utilization_pct is `lots`"),
        ({"Dataset": "Model,Dataset,MGUP\nnet,set,5\n"}, "no column 'BS'"),
        ({"Dataset": "Model,Dataset,BS\nnet,set,many\n"}, "cannot be read: could not convert"),
        ({"pairs": PAIRS.replace("mps", "magic")}, "pairs.csv:2: sharing is `magic`"),
    ],
)
def test_unreadable_tables_are_refused_with_the_reason(tmp_path: Path, files: dict[str, str], says: str):
    with pytest.raises(BadInput, match=says) as error:
        read_folder(folder(tmp_path, **files))
    assert error.value.fix


def test_a_type_of_device_that_is_not_named_is_a_type_of_its_own(tmp_path: Path):
    data = read_folder(folder(tmp_path, singles=SINGLES.replace("GPU A", ""), pairs=PAIRS.replace("GPU A", "")))
    assert [table.device_type for table in data.tables] == ["GPU B", "not stated"]
    assert (data.pairs[0].device_type, data.pairs[0].place_a) == ("not stated", ("a", 8.0))


def test_error_names_the_file_that_is_not_text(tmp_path: Path):
    (tmp_path / "singles.csv").write_bytes(SINGLES.encode() + b"\xff\xfe,")
    with pytest.raises(BadInput, match=r"singles\.csv"):
        read_folder(tmp_path)


def test_a_missing_folder_is_reported(tmp_path: Path):
    with pytest.raises(BadInput, match="no folder"):
        read_folder(tmp_path / "missing")


def test_the_seeds_own_table_is_read_with_its_leaks_shut_out(tmp_path: Path):
    head = "ID,Model,Dataset,Epoch,BS,MGUP,MGMAP,Min_GPU_Util_%,CS_interrupts,NIOB_sent,DU_used,SCT_user,SMU_total,SMU_used"
    rows = ["1, net ,set/3.2.0,5,8,40,20,1,1,1,1,1,1,1", "2,small/ net,set/3.2.1,5,16,50,20,2,2,2,2,2,2,2"]
    data = read_folder(folder(tmp_path, Dataset="\n".join([head, *rows]) + "\n"))
    (table,) = data.tables
    assert [row.series for row in table.rows] == ["net set", "small/net set"]
    assert {column.name for column in table.columns if column.shut_out is None} == {
        "Epoch",
        "BS",
        "MGUP",
        "MGMAP",
        "SMU_used",
    }
    assert {column.name for column in table.columns if column.before} == {"Epoch", "BS"}
    assert set(table.texts) == {"Model", "Dataset"}


def test_a_sites_attempts_are_pooled_into_one_row_for_each_work_and_batch_size():
    chance = random.Random(1)
    works = [Work("net", batch, 10.0 * batch, batch * GIB) for batch in (2, 4)]
    outcomes = [run(work, i, chance) for i, work in enumerate(works * 3)]
    data = from_outcomes("here", outcomes)
    (table,) = data.tables
    assert table.device_type == DEVICE
    assert sorted(row.batch_size or 0 for row in table.rows) == [2, 4]
    assert len({row.series for row in table.rows}) == 1
    small = next(row for row in table.rows if row.batch_size == 2)
    assert small.values["peak_utilization_pct"] == pytest.approx(20, rel=0.1)
    assert table.column("batch_size").before
    assert not table.column("duration_s").before


def test_attempts_that_shared_show_pairs_and_no_peaks_of_their_own():
    chance = random.Random(1)
    one, other = Work("net", 2, 30.0, GIB), Work("bert", 2, 60.0, GIB)
    alone = [run(one, 1, chance), run(other, 2, chance)]
    kinds = [outcome.kind for outcome in alone]
    shared = [
        run(one, 3, chance, shared=True, slowdowns=((kinds[1], 1.2, None, None),)),
        run(one, 4, chance, shared=True, slowdowns=((kinds[1], 1.4, None, None),)),
        run(other, 5, chance, shared=True, slowdowns=((kinds[0], 1.1, None, None),)),
    ]
    data = from_outcomes("here", [*alone, *shared])
    assert sum(len(table.rows) for table in data.tables) == 2
    (pair,) = data.pairs
    slowdowns = {pair.job_a: pair.slowdown_a, pair.job_b: pair.slowdown_b}
    assert slowdowns == {kinds[0]: pytest.approx(1.3), kinds[1]: pytest.approx(1.1)}
    assert pair.place_a[1] == 2.0


def test_pairs_measured_under_two_ways_of_sharing_stay_apart():
    chance = random.Random(1)
    one, other = Work("net", 2, 30.0, GIB), Work("bert", 2, 60.0, GIB)
    partner = run(other, 1, chance).kind
    shared = [run(one, 2 + n, chance, shared=True, slowdowns=((partner, 1.2 + n, None, None),)) for n in (0, 1)]
    ways = [replace(outcome, sharing=way) for outcome, way in zip(shared, ("mps", None), strict=True)]
    found = {pair.sharing: pair.slowdown_a or pair.slowdown_b for pair in from_outcomes("here", ways).pairs}
    assert found == {"mps": pytest.approx(1.2), None: pytest.approx(2.2)}


def test_no_attempts_are_no_data():
    data = from_outcomes("here", [])
    assert (data.tables, data.pairs) == ((), ())
