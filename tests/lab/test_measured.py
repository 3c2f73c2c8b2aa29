"""Reading tables of measured jobs, and the errors for what cannot be read."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuq.errors import BadInput
from gpuq.lab.measured import PAIRS, SINGLES, PairMeasurement, SingleMeasurement, read_pairs, read_singles


@pytest.fixture
def table(tmp_path: Path):
    def write(text: str | bytes) -> Path:
        path = tmp_path / "table.csv"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


def test_all_columns_of_both_tables_are_read(table) -> None:
    singles = table(",".join((*SINGLES, "measured_at")) + "\nV100,a:32,ResNet-50,32,91.5,40,5120,210,7.5,1700000000\n")
    assert read_singles(singles) == [
        SingleMeasurement("V100", "a:32", "ResNet-50", 32, 91.5, 40, 5120, 210, 7.5, 1700000000)
    ]
    pairs = table(",".join((*PAIRS, "measured_at")) + "\nV100,mps,a:32,b,1.2,1.05,1700000000\n")
    assert read_pairs(pairs) == [PairMeasurement("V100", "mps", "a:32", "b", 1.2, 1.05, 1700000000)]


def test_a_command_is_read_as_a_shell_would_and_an_open_quote_is_named_with_its_line(table) -> None:
    (single,) = read_singles(table('job,command\na,"python train.py --note ""two words"""\n'))
    assert single.command == 'python train.py --note "two words"'
    with pytest.raises(BadInput, match=r"csv:2: command is"):
        read_singles(table("job,command\na,python train.py --note 'two\n"))


def test_blank_cells_and_missing_columns_are_unknown_and_never_zero(table) -> None:
    (single,) = read_singles(table("job,device_type,utilization_pct,peak_memory_mib\na,V100,,\n"))
    assert single == SingleMeasurement("V100", "a", "a")
    (pair,) = read_pairs(table("job_a,job_b,slowdown_a\na,b,n/a\n"))
    assert pair == PairMeasurement("", None, "a", "b", None, None)


def test_tables_saved_by_spreadsheets_are_read(table) -> None:
    plain = read_pairs(table("device_type,job_a,job_b,slowdown_a,slowdown_b\nV100,a,b,1.5,\n\n"))
    assert (
        read_pairs(table(b"\xef\xbb\xbfdevice_type,job_a,job_b,slowdown_a,slowdown_b\r\nV100,a,b,1.5,\r\n,,,,\r\n"))
        == plain
    )
    assert read_pairs(table("Device Type;JOB_A; job_b ;slowdown_a;other\nV100;a;b;1.5;x\n")) == plain
    assert read_pairs(table('job_a\tjob_b\tslowdown_a\tdevice_type\n"a"\t b \t1.5\tV100')) == plain


def test_a_name_may_hold_anything_that_csv_can(table) -> None:
    (single,) = read_singles(table('job,model\n"vgg, ""19"" ✓","L-2_H-128/A-2"\n'))
    assert (single.job, single.model) == ('vgg, "19" ✓', "L-2_H-128/A-2")


@pytest.mark.parametrize(
    ("written", "meant"),
    [("MPS", "mps"), ("time_slicing", "time-slicing"), ("Time Slicing", "time-slicing"), ("", None), ("unknown", None)],
)
def test_sharing_modes_by_their_spellings(table, written: str, meant: str | None) -> None:
    (pair,) = read_pairs(table(f"job_a,job_b,slowdown_a,sharing\na,b,1.5,{written}\n"))
    assert pair.sharing == meant


def test_zero_is_a_utilisation_but_no_memory_and_full_is_a_hundred(table) -> None:
    (single,) = read_singles(table("job,utilization_pct,memory_utilization_pct,peak_memory_mib\na,0,100.4,0\n"))
    assert (single.utilization_pct, single.memory_utilization_pct, single.peak_memory_mib) == (0, 100, None)


def test_times_in_seconds_or_written_out(table) -> None:
    text = "job,measured_at\na,1763735400\nb,2025-11-21T14:30:00Z\nc,2025-11-21 14:30:00\nd,2025-11-21T15:30:00+01:00\n"
    assert {single.measured_at for single in read_singles(table(text))} == {1763735400.0}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("job_a,slowdown_a\n", ":1: there is no column job_b, only job_a, slowdown_a"),
        ("job_a,job_b,slowdown_a,slowdown_a\n", "slowdown_a is there twice"),
        ("job_a,job_b,slowdown_a\na,b,1.2\na,b,quick\n", ":3: slowdown_a is `quick`"),
        ("job_a,job_b,slowdown_a\na,b,-1\n", ":2: slowdown_a is -1"),
        ("job_a,job_b,slowdown_a\na,b,inf\n", ":2: slowdown_a is inf"),
        ("job_a,job_b,slowdown_a\na,b,0\n", ":2: slowdown_a is 0"),
        ("job_a,job_b,slowdown_a\na,,1.2\n", ":2: job_b is blank"),
        ("job_a,job_b,slowdown_a\na,b,1.2,oops\n", ":2: there are 4 cells under 3 columns"),
        ("job_a,job_b,slowdown_a,sharing\na,b,1.2,mig\n", ":2: sharing is `mig`"),
        ("job_a,job_b,slowdown_a,measured_at\na,b,1.2,yesterday\n", ":2: measured_at is `yesterday`"),
        (b"job_a,job_b,slowdown_a\n\xff,b,1\n", "is not UTF-8"),
    ],
)
def test_unreadable_cell_is_named_with_line_and_fix(table, text: str | bytes, said: str) -> None:
    with pytest.raises(BadInput) as error:
        read_pairs(table(text))
    assert said in error.value.message
    assert error.value.fix


def test_percent_beyond_a_full_device_is_another_unit(table) -> None:
    with pytest.raises(BadInput, match="utilization_pct is 180"):
        read_singles(table("job,utilization_pct\na,180\n"))


def test_a_file_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="No such file"):
        read_singles(tmp_path / "none.csv")
    with pytest.raises(BadInput, match="directory"):
        read_singles(tmp_path)


@given(st.binary(max_size=200))
def test_any_bytes_are_rows_or_a_sentence(tmp_path_factory: pytest.TempPathFactory, body: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_bytes(b"job_a,job_b,slowdown_a\n" + body)
    with suppress(BadInput):
        assert all(row.job_a and row.job_b for row in read_pairs(path))
