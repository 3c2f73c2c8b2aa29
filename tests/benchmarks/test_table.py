"""The benchmarks' table and file: what is met, what is missed, and what cannot be said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.table import Row, lines, number, write


@pytest.mark.parametrize(
    ("value", "reach", "sense", "ok"),
    [(0.4, 0.4, "<=", True), (0.41, 0.4, "<=", False), (0.7, 0.7, ">=", True), (0.69, 0.7, ">=", False)],
)
def test_a_reach_is_met_up_to_its_number(value: float, reach: float, sense: str, ok: bool):
    assert Row("row", value, "times", reach, sense).ok is ok


def test_a_row_without_a_reach_or_a_value_is_neither():
    assert Row("row", 1.0, "ms").ok is None
    assert Row("row", None, "ms", 1.0).ok is None


def test_the_file_has_what_programs_read(tmp_path: Path):
    path = write([Row("fast", 2.0, "ms", 3.0), Row("  detail", None, "ms")], "bench", tmp_path / "build")
    first, second = json.loads(path.read_text())
    assert path.name == "bench.json"
    assert {key: first[key] for key in ("name", "value", "unit", "reach", "ok")} == {
        "name": "fast",
        "value": 2.0,
        "unit": "ms",
        "reach": 3.0,
        "ok": True,
    }
    assert (second["value"], second["reach"], second["ok"]) == (None, None, None)


def test_a_miss_stands_out_in_the_table():
    table = lines([Row("slow", 4.0, "ms", 3.0, note="why"), Row("no reach", 12345.0, "ms")])
    assert table[1].split() == ["slow", "4", "ms", "<=", "3", "NO", "why"]
    assert table[2].split() == ["no", "reach", "12,345", "ms"]
    assert len({line.index("ms") for line in table[1:]}) == 1, "columns line up"


def test_numbers_have_three_digits_that_matter():
    assert [number(value) for value in (0.0, 0.01234, 1.26, 99.96, 1234.5, None)] == [
        "0",
        "0.0123",
        "1.26",
        "100",
        "1,234",
        "-",
    ]
